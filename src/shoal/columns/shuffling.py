"""Shuffling: numbers are reassigned to rows by ranks that other columns predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from shoal.columns.base import SUBSTITUTION, NumberDomain, Technique, Trace
from shoal.columns.numbers import column_numbers, correlate, read_numbers
from shoal.columns.permutation import MovedTreatment
from shoal.columns.row_random import normal
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.dictionaries import encode_columns
from shoal.core.errors import InputError
from shoal.core.randomness import Chance
from shoal.core.wording import code, join_words
from shoal.sources.base import Source


class Shuffling(Technique):
    """The column's numbers are permuted between rows by the values of other columns only.

    Muralidhar and Sarathy, "Data shuffling: a new masking approach for numerical data" (Management Science 52(5),
    2006). A normal copula of the ranks gives the distribution of the number given the other columns; a random draw
    from it determines the row's new rank. A row's own number has no influence: apart from the rank correlations with
    the other columns, the row discloses nothing about it.
    """

    name = "shuffling"
    title = "numbers reassigned to rows by ranks that other columns predict"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = SUBSTITUTION

    given: tuple[str, ...] = Field(
        min_length=1, description="columns of numbers with which the rank correlations are preserved"
    )

    @property
    def needs(self) -> tuple[str, ...]:
        return self.given

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        return (
            "numbers were shuffled among all records, which approximately preserves their rank correlations with "
            f"{join_words([code(name) for name in entry['given']])}. All numbers occur in the source, but almost every "
            "row has another person's."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:  # noqa: ARG003
        return Trace(moved=1.0)

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:  # noqa: ARG003
        advice = "- Shuffling preserves the distribution of each column and its monotone relations with the columns it "
        return [
            advice + "was shuffled by. Relations with other columns remain only as far as those columns imply them."
        ]

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> MovedTreatment:  # noqa: ARG002
        (dictionary,), (codes,) = encode_columns(source.batches([column], dictionary=[column]))
        present = np.flatnonzero(codes)
        if len(present) <= len(self.given) + 1:
            raise InputError(f"column {column!r}: {len(present)} numbers are too few to shuffle by other columns")
        own = column_numbers(dictionary.values, column)[0][codes[present] - 1]
        others = read_numbers(source, self.given)[present]
        scores = np.stack([score_ranks(each, chance) for each in (own, *others.T)], axis=1)
        correlations = correlate(scores)
        slopes = np.linalg.pinv(correlations[1:, 1:], hermitian=True) @ correlations[1:, 0]
        left = np.sqrt(max(1.0 - float(slopes @ correlations[1:, 0]), 0.0))
        drawn = scores[:, 1:] @ slopes + left * normal(chance.keys(4 * len(present)).reshape(-1, 4))
        moved = codes.copy()
        moved[present[np.argsort(drawn, kind="stable")]] = codes[present[np.argsort(own, kind="stable")]]
        found = {"rows_with_their_own_value": int((moved == codes).sum()), "rows_alone_in_group": 0}
        kind = source.schema.field(column).type
        return MovedTreatment(column, kind, self.public(within=[]), dictionary.values, moved, found)


def score_ranks(numbers: FloatArray, chance: Chance) -> FloatArray:
    """Return (n,) the normal scores of ranks, with random ranks for ties; 0 for missing and constant numbers.

    >>> score_ranks(np.array([3.0, 1.0, 2.0]), Chance.of(1)).round(2).tolist()
    [0.67, -0.67, 0.0]
    """
    from scipy.special import ndtri

    scores, known = np.zeros(len(numbers)), np.flatnonzero(np.isfinite(numbers))
    if len(known) and np.ptp(numbers[known]) > 0:
        mixed: IntArray = known[chance.order(len(known))]
        ranked = mixed[np.argsort(numbers[mixed], kind="stable")]
        scores[ranked] = ndtri(np.arange(1, len(known) + 1) / (len(known) + 1))
    return scores
