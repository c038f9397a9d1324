"""Privacy models that a draft asks for: strong enough to mean something, and reachable on this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import IntArray
from shoal.drafting.domains import TaxonomyGuess, seen_values
from shoal.drafting.profiling import ColumnProfile
from shoal.models.base import ValueModel, Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.registry import find
from shoal.taxonomies.builders.base import TaxonomyBuilder

LARGE_TABLE = 10_000
ROOM = 1.5  # a requirement near what the whole table reaches leaves a method nothing to publish


@dataclass(frozen=True, slots=True)
class ModelGuess:
    """A privacy model as a policy writes it, or none, and why."""

    model: Mapping[str, Any] | None
    reason: str
    questions: tuple[str, ...] = ()


def k_anonymity(n_rows: int) -> ModelGuess:
    """Ask for k = 5, of large tables for k = 10, of tiny ones for what they have."""
    k = 10 if n_rows > LARGE_TABLE else min(5, n_rows)
    questions: tuple[str, ...] = ()
    if k < 5:
        questions = (f"is a table of {n_rows:,} records worth publishing? It can hide nobody among more.",)
    return ModelGuess({"k-anonymity": {"k": k}}, f"every record shares its quasi values with {k - 1} others", questions)


def diversity(column: ColumnProfile, taxonomy: TaxonomyGuess) -> ModelGuess:
    """Ask that the values of every class differ, as far as the whole table lets them."""
    counts = _leaf_counts(column, taxonomy)
    whole = Whole(int(counts.sum()), counts)
    named = {"attribute": column.name}
    reached = EntropyLDiversity(l=1).worst(whole.as_class(), whole)
    reason = "the values of a class shall differ"
    if column.exact:
        reason += f"; the table as a whole has a diversity of {reached:.2f} (exp of the entropy), the most there is"
    # The counts of a column with too many values are those of its beginning: they prove that values differ, no more.
    asked: list[ValueModel] = [EntropyLDiversity(l=l) for l in (3, 2) if column.exact and reached >= ROOM * l]
    asked += [DistinctLDiversity(l=l) for l in ((2,) if column.exact else (3, 2))]
    for model in asked:
        if model.why_unreachable(whole) is None:
            parameters = model.model_dump(exclude_none=True)
            shown = {key: int(value) if value == int(value) else value for key, value in parameters.items()}
            return ModelGuess({model.name: {**shown, **named}}, reason)
    return ModelGuess(
        None,
        "every record has the same value: nothing about it can be hidden",
        ("this sensitive column has one value only: whoever is in the table has it. Should it be published?",),
    )


def _leaf_counts(column: ColumnProfile, guess: TaxonomyGuess) -> IntArray:
    """Return the records of each value as models will see it, missing being one."""
    records = column.counts[1:][column.counts[1:] > 0]
    if guess.taxonomy is not None:
        ((name, parameters),) = guess.taxonomy.items()
        builder = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy").model_validate(parameters)
        leaves = builder.build(column.values).encode(seen_values(column))
        records = np.bincount(leaves, weights=records).astype(np.int64)
    return np.append(records, column.n_missing) if column.n_missing else records
