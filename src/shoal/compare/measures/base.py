"""What a measure of a comparison is: a share, 1 if a release does as well as the source and 0 if nothing is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from shoal.compare.ground import Ground
from shoal.core.arrays import CodeArray


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What all releases are measured against."""

    ground: Ground
    source: CodeArray  # (n_attributes, n_rows) leaves of those whom releases are about
    asked: CodeArray  # (n_attributes, n_asked) leaves of people to be predicted: the control group, if there is one
    seed: int  # of questions: the same for every release


@dataclass(frozen=True, slots=True)
class Score:
    """How much is kept, and the figures that the share comes from; or why nothing was measured."""

    kept: float | None
    figures: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return all of it for JSON."""
        told: dict[str, object] = {"kept": self.kept, **self.figures}
        return told if self.reason is None else told | {"reason": self.reason}


class Measure(ABC):
    """One way to ask what can still be done with a release."""

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    place: ClassVar[int]  # among the measures of a table

    @abstractmethod
    def __init__(self, stage: Stage) -> None:
        """Prepare the questions, and their answers from the source."""

    @abstractmethod
    def score(self, rows: CodeArray) -> Score:
        """Ask a release, given as (n_attributes, n_rows) leaves of a table that somebody would make of it."""


def binned(rows: CodeArray, bins: list[CodeArray]) -> list[CodeArray]:
    """Return each attribute's rows as bins."""
    return [own[column] for own, column in zip(bins, rows, strict=True)]


def n_bins(bins: CodeArray) -> int:
    """Return how many bins an attribute has, that of unknown values included."""
    return int(bins.max()) + 1


def generator(stage: Stage, name: str) -> np.random.Generator:
    """Return the generator of a measure's questions."""
    return np.random.default_rng([stage.seed, *name.encode()])
