"""Confidence bounding: an attacker can infer a harmful value only with limited confidence."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain
from typing import ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.dictionaries import fold_text
from shoal.models.base import ClassHistograms, Curve, DisclosureModel, Whole, number, round_up
from shoal.models.exact import at_most, fraction, largest_counts, quotient, row_blocks


class ConfidenceBounding(DisclosureModel):
    """No harmful sensitive value has more than the share *most* of a class.

    Wang, Fung and Yu, "Handicapping attacker's confidence: an alternative to k-anonymization", Knowledge and
    Information Systems 11(3), 2007, with one bound for all harmful values. With a *separator*, values are
    sets of items, and the share of records with each harmful item is bounded.

    >>> model = ConfidenceBounding(most=0.25)
    >>> model.holds(ClassHistograms.of([[1, 1, 1, 1], [2, 1, 1, 1]]), Whole.of([3, 2, 2, 2]))
    array([ True, False])
    """

    name = "confidence-bounding"
    title = "no harmful sensitive value has more than the share most of a class"
    explanation = "No attacker can infer a person's harmful value with more than a given confidence."
    example = "With most = 0.2 and 'none' harmless, at most a fifth of a class has any one disease."
    usual: ClassVar = {"most": 0.5}
    weaknesses = "Values that the policy lists as harmless are not bounded at all."
    achieved_is = "at most"
    judges_beliefs = True
    bounded_by = "most"

    most: float = Field(gt=0, le=1, description="largest share of a harmful value in a class")
    harmless: tuple[str, ...] = Field(default=(), description="values (or items) that may have any frequency")
    separator: str | None = Field(
        default=None, min_length=1, description="text between the items of a value; then each item is bounded"
    )

    @model_validator(mode="after")
    def _separate_one_attribute(self) -> Self:
        if len(self.attributes) > 1 and self.separator is not None:
            raise ValueError("joint values cannot be separated into items: leave out separator, or name one attribute")
        return self

    @property
    def knows_values(self) -> bool:
        return bool(self.harmless) or self.separator is not None

    @property
    def bounds(self) -> Curve:
        return Curve((fraction(self.most),))

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether c <= most n for every harmful value or item, in exact arithmetic."""
        return at_most(self._largest(classes, whole), fraction(self.most), classes.sizes) & (classes.sizes > 0)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the largest share of a harmful value or item."""
        return quotient(self._largest(classes, whole), classes.sizes, if_zero=math.inf)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        what = "value" if self.separator is None else "item"
        return (
            f"most = {number(self.most)} but the most frequent harmful {what} has a share of {round_up(reached, 4)} "
            "of the whole table; ask for at least that, or list under 'harmless' the values that may be inferred"
        )

    def promises_nothing(self, whole: Whole) -> bool:  # noqa: ARG002
        return self.most >= 1

    def _largest(self, classes: ClassHistograms, whole: Whole) -> IntArray:
        """Return (n_classes,) records of the most frequent harmful value or item."""
        counts = self.values_of(classes)
        if not self.knows_values or not counts.shape[1]:
            return largest_counts(counts)
        if whole.taxonomy is None:
            raise TypeError(f"{self.subject} needs the names of the values; only codes were given")
        tree = whole.taxonomy
        harmful = _harmful(tree.leaf_labels, tree.missing, frozenset(map(fold_text, self.harmless)), self.separator)
        largest = np.zeros(len(counts), dtype=np.int64)
        if len(harmful.first):
            for rows in row_blocks(counts):
                # (n_rows, n_items) records that have each item
                largest[rows] = largest_counts(np.add.reduceat(counts[rows][:, harmful.value], harmful.first, axis=1))
        return largest


class _Harmful(NamedTuple):
    """The harmful items: item i is in the values ``value[first[i]:first[i + 1]]``, at least one."""

    first: IntArray  # (n_items,)
    value: IntArray  # (n_pairs,)


@lru_cache(maxsize=16)
def _harmful(labels: tuple[str, ...], missing: int | None, harmless: frozenset[str], separator: str | None) -> _Harmful:
    """Find the harmful items of all values. A missing value counts as an item; case variants count as one item."""
    values_of: dict[str | None, list[int]] = {}
    for value, label in enumerate(labels):
        parts = [label] if separator is None else [part for part in label.split(separator) if part.strip()]
        items: set[str | None] = {None} if value == missing else set(map(fold_text, parts))
        for each in items - harmless:
            values_of.setdefault(each, []).append(value)
    sizes = np.array([len(values) for values in values_of.values()], dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    return _Harmful(first, np.array(list(chain.from_iterable(values_of.values())), dtype=np.int64))
