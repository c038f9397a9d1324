"""What a method is: it turns a problem into a plan, and knows nothing of files or engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from shoal.core.progress import Progress
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.plan.synthetic import SyntheticPlan

AnyPlan: TypeAlias = Plan | SlicedPlan | SyntheticPlan
Labels = Annotated[
    Literal["levels", "ranges"],
    Field(
        description="levels: every published value is one that its taxonomy has; ranges: from a lowest to a highest "
        "value, with ends that the policy declares"
    ),
]


class Method(BaseModel, ABC):
    """A way to make classes. Fields are its parameters, declared once for messages, help and schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    usual: ClassVar[Mapping[str, Any]] = {}  # a usual choice of the parameters that must be given
    form: ClassVar[str] = "classes"  # of the releases that its plans become: a name in ``shoal.release.forms``
    makes_parts: ClassVar[bool] = False  # whether records are taken apart, and models are about beliefs and parts
    draws_rows: ClassVar[bool] = False  # whether rows are drawn from noisy counts, and nobody's
    models: ClassVar[Literal["required", "optional", "none"]] = "required"  # privacy models of the policy
    averages: ClassVar[bool] = False  # whether it needs the numbers themselves, not only their leaves
    # Boxes of quasi values, or boxes of taxonomy nodes, that it can plan one by one: what it publishes of one is not
    # published of another. None: it decides for all records at once.
    takes_regions: ClassVar[Literal["boxes", "nodes"] | None] = None
    counts_people: ClassVar[bool] = False  # whether it can count people instead of records
    generalizes_values: ClassVar[bool] = False  # whether it generalizes sensitive values where nothing else helps

    @property
    def as_two_tables(self) -> bool:
        """Whether the quasi and the sensitive values are also to be published as files of their own."""
        return False

    @property
    def defends_labels(self) -> bool:
        """Whether labels of sensitive values tell no more of a record than is known of all records of the table."""
        return False

    def refuses(self, problem: Problem) -> str | None:
        """Say why this method cannot serve the problem; None if it can."""
        for model in (requirement.model for requirement in problem.requirements):
            if model.of_parts and not self.makes_parts:
                return f"{model.name} is about the parts of a sliced table, and there are none; ask for k-anonymity"
        return None

    @abstractmethod
    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> AnyPlan:
        """Return a plan whose classes or buckets meet every requirement, or raise UnreachableError."""
