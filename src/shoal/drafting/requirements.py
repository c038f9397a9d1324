"""Privacy models that a draft asks for: strong enough to mean something, and reachable on this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.drafting.profiling import ColumnProfile
from shoal.models.base import Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity

LARGE_TABLE = 10_000
SHALL_DIFFER = "the values of a class shall differ; the table as a whole has a diversity of"
ROOM = 1.5  # a requirement near what the whole table reaches leaves a method nothing to publish


@dataclass(frozen=True, slots=True)
class ModelGuess:
    """A privacy model as a policy writes it, or none, and why."""

    model: Mapping[str, Any] | None
    reason: str
    questions: tuple[str, ...] = ()


def k_anonymity(n_rows: int) -> ModelGuess:
    """Ask for k = 5, of large tables for k = 10, of tiny ones for what they have, and never for 1."""
    k = 10 if n_rows > LARGE_TABLE else max(2, min(5, n_rows))
    questions: tuple[str, ...] = ()
    if k < 5:
        questions = (f"is a table of {n_rows:,} records worth publishing? It can hide nobody among more.",)
    return ModelGuess({"k-anonymity": {"k": k}}, f"every record shares its quasi values with {k - 1} others", questions)


def diversity(column: ColumnProfile) -> ModelGuess:
    """Ask that the values of every class differ, as far as those of the whole table do."""
    counts = column.counts[1:][column.counts[1:] > 0]
    if column.n_missing:  # missing is a value too
        counts = np.append(counts, column.n_missing)
    whole = Whole(int(counts.sum()), counts)
    reached = EntropyLDiversity(l=1).worst(whole.as_class(), whole)
    for l in (3, 2):
        if reached >= ROOM * l:
            asked = {EntropyLDiversity.name: {"l": l, "attribute": column.name}}
            return ModelGuess(asked, f"{SHALL_DIFFER} {reached:.2f} (exp of the entropy), the most there is")
    if len(counts) > 1:
        asked = {DistinctLDiversity.name: {"l": 2, "attribute": column.name}}
        return ModelGuess(asked, f"{SHALL_DIFFER} {reached:.2f} only, so that two values are all that is asked for")
    return ModelGuess(
        None,
        "every record has the same value: nothing about it can be hidden",
        ("this sensitive column has one value only: whoever is in the table has it. Should it be published?",),
    )
