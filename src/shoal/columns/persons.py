"""Persons with several records, whose tokens would show which records belong together."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.errors import PolicyError
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.sources.base import Source


def refuse_repeated(source: Source, columns: Sequence[str]) -> None:
    """Raise if a value of one of these columns is in several records; missing values are nobody's.

    Tokens of a person with several records show that these belong together: a class of k records may then be of one
    person, and what is promised of classes would not hold for people.
    """
    for column in columns:
        counted = LocalEngine().count(source, [column], Silent())
        records = counted.run.counts[counted.codes(0) != 0]
        repeated = int((records > 1).sum())
        if repeated:
            raise PolicyError(
                f"column {column!r}: {repeated} of its {len(records)} values are in several records; their tokens "
                "would show which records are of one person, so that no class promises anything. Leave out the "
                "technique, so that the column is not published, or publish one record of each person"
            )
