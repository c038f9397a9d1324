"""The value tree of one attribute.

Leaves are numbered in tree order, so every node is a contiguous range of leaves ``[lo, hi)``, and a
published value is a leaf range too: a taxonomy node and a Mondrian interval are one type. A node's number
below ``n_leaves`` is the leaf's own number; inner nodes follow, the root last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shoal.arrays import CodeArray, FloatArray

Kind = Literal["category", "number", "date", "prefix"]
Cover = dict[str, Any]


class Scale(ABC):
    """How the leaf ranges of one kind of attribute are written down.

    A *cover* says, without reference to any code, which source values a label stands for. It goes to the
    manifest, where the verifier and the users of the data read it:

    - ``{"any": true}``: every value, missing or not (the root);
    - ``{"values": [...]}``: these source values, as text;
    - ``{"prefixes": [...]}``: every text that starts with one of these;
    - ``{"from": a, "below": b}``: numbers or ISO dates in [a, b); a null end is open;
    - any of them with ``"missing": true``: missing values as well.
    """

    kind: Kind

    @abstractmethod
    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:
        """Text for a leaf range that is no taxonomy node and does not contain the missing leaf."""

    @abstractmethod
    def cover(self, taxonomy: Taxonomy, lo: int, hi: int) -> Cover:
        """Source values under a leaf range that is not the root and does not contain the missing leaf."""

    def positions(self, taxonomy: Taxonomy) -> FloatArray | None:
        """Return (n_leaves,) the places of leaves on the line of numbers, or None if they have no distance."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Taxonomy:
    """A tree of values; node v covers the leaves ``lo[v]:hi[v]``.

    ``missing`` is the leaf that stands for missing values, always the last one and a child of the root, or
    None. ``declared`` says that the leaves come from the policy, not from the data, so that all may be named.
    """

    labels: tuple[str, ...]  # (n_nodes,) leaves first, in tree order; root last
    parent: CodeArray  # (n_nodes,) the root's is -1
    lo: CodeArray  # (n_nodes,)
    hi: CodeArray  # (n_nodes,)
    level: CodeArray  # (n_nodes,) the root's is 0
    n_leaves: int
    scale: Scale
    declared: bool
    missing: int | None = None
