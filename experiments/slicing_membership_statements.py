"""What Li, Li, Zhang and Molloy found in Figures 6 and 7, statement by statement, beside what was measured here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from experiments.slicing import TableResult
from experiments.slicing_membership import FIVE, SIX_QUASI, TWO, Matching
from experiments.writing import Statement, Verdict, verdict_of

NEAR = 0.1  # of the paper's number
ALMOST_ALL = 0.9
TIMES = 10
PAPER_FAKES = 87_936
PAPER_FAKES_MANY = 5_325
PAPER_ORIGINALS_MANY = 31_452
_STATED_ON = "occ-7"
_STATED_SIZE = 100
_JUDGED = f"Judged on the nearest partition, within {NEAR:.0%}."


def membership_statements(table: TableResult) -> list[Statement]:
    """Judge what section 6.3 says of Figures 6 and 7 on one table; some numbers are stated for one table only."""
    return [
        _alone(table),
        *_nearly_twice(table),
        _grows_with_size(table),
        _more_with_c(table),
        _more_than_originals(table),
        *_fakes_with_many(table),
        _closer(table),
        _originals_have_more(table),
    ]


def _alone(table: TableResult) -> Statement:
    verdict: Verdict = "holds" if table.alone == 1 else "holds in part" if table.alone >= 0.5 else "does not hold"
    claim = "Each combination of QI values occurs once, so bucketization tells who is in the table."
    return Statement(6, claim, verdict, f"Of {table.alone:.1%} of the records nobody else has the QI values.")


def _nearly_twice(table: TableResult) -> Iterator[Statement]:
    for one in _stated(table):
        if one.columns == SIX_QUASI and one.n_fakes is not None:
            yield Statement(
                6,
                f"With p = {_STATED_SIZE} and c = 2 there are {PAPER_FAKES:,} fake tuples, nearly twice the originals.",
                verdict_of(int(_near(one.n_fakes, PAPER_FAKES)), 1),
                "; ".join(
                    f"{other.columns}: {_count(other.n_fakes)} fakes for {other.n_records:,} records"
                    for other in _stated(table)
                )
                + f". {_JUDGED}",
            )


def _grows_with_size(table: TableResult) -> Statement:
    steps = [
        (before.n_fakes, after.n_fakes)
        for group in _by_columns(table).values()
        for before, after in itertools.pairwise(group)
        if before.n_fakes is not None and after.n_fakes is not None
    ]
    wins = sum(after > before for before, after in steps)
    return Statement(
        6,
        "The number of fake tuples grows with the bucket size.",
        verdict_of(wins, len(steps)),
        f"It does in {wins} of {len(steps)} steps from one size to the next.",
    )


def _more_with_c(table: TableResult) -> Statement:
    groups = _by_columns(table)
    ratios = [
        five.n_fakes / two.n_fakes
        for two, five in zip(groups[TWO], groups[FIVE], strict=True)
        if two.n_fakes and five.n_fakes is not None
    ]
    measured = f"{min(ratios):,.0f} to {max(ratios):,.0f} times as many with c = 5 as with c = 2." if ratios else ""
    claim = f"Fake tuples become exponentially more with the number of columns (here: at least {TIMES} times as many)."
    return Statement(6, claim, verdict_of(sum(ratio >= TIMES for ratio in ratios), len(ratios)), measured)


def _more_than_originals(table: TableResult) -> Statement:
    counted = [one for one in table.matchings if one.n_fakes is not None]
    wins = sum((one.n_fakes or 0) > one.n_records for one in counted)
    return Statement(
        6,
        "In almost all experiments there are more fake tuples than original ones.",
        verdict_of(wins, len(counted), ALMOST_ALL),
        f"So it is in {wins} of {len(counted)} (here: at least {ALMOST_ALL:.0%}).",
    )


def _fakes_with_many(table: TableResult) -> Iterator[Statement]:
    for one in _stated(table):
        if one.columns == SIX_QUASI and one.fakes_with_many is not None:
            fakes, records = (
                _near(one.fakes_with_many, PAPER_FAKES_MANY),
                _near(one.records_with_many, PAPER_ORIGINALS_MANY),
            )
            yield Statement(
                7,
                f"With p = {_STATED_SIZE} and c = 2, {PAPER_FAKES_MANY:,} fake and {PAPER_ORIGINALS_MANY:,} original "
                "tuples have more than 20 matching buckets.",
                verdict_of(fakes + records, 2),
                "; ".join(
                    f"{other.columns}: {_count(other.fakes_with_many)} and {other.records_with_many:,}"
                    for other in _stated(table)
                )
                + f". {_JUDGED}",
            )


def _closer(table: TableResult) -> Statement:
    groups = {name: [_distance(one) for one in group] for name, group in _by_columns(table).items()}
    steps = [pair for group in groups.values() for pair in itertools.pairwise(group)]
    steps += list(zip(groups[TWO], groups[FIVE], strict=True))
    known = [(before, after) for before, after in steps if before is not None and after is not None]
    wins = sum(after < before for before, after in known)
    measured = f"They are in {wins} of {len(known)} steps to the next size or to five columns."
    if not known:
        measured = "No tuple has more than 20 matching buckets."
    claim = "These two numbers come closer with larger p and c."
    return Statement(7, claim, verdict_of(wins, len(known)), measured)


def _originals_have_more(table: TableResult) -> Statement:
    shares = [
        (one.records_with_many / one.n_records, one.fakes_with_many / one.n_fakes)
        for one in table.matchings
        if one.fakes_with_many is not None and one.n_fakes and (one.records_with_many or one.fakes_with_many)
    ]
    wins = sum(ours > theirs for ours, theirs in shares)
    measured = "No tuple has more than 20 matching buckets."
    if shares:
        ours, theirs = (float(np.mean(side)) for side in zip(*shares, strict=True))
        measured = (
            f"On average {ours:.1%} of the records and {theirs:.2%} of the fakes; the former are ahead in {wins} of "
            f"{len(shares)}."
        )
    claim = "A large fraction of original tuples has more than 20 matching buckets, only a small one of fake tuples."
    return Statement(7, claim, verdict_of(wins, len(shares)), measured)


def _distance(one: Matching) -> float | None:
    """How far apart fakes and originals with many matching buckets are, as the logarithm of their ratio."""
    if not one.fakes_with_many or not one.records_with_many:
        return None
    return abs(math.log(one.fakes_with_many / one.records_with_many))


def _by_columns(table: TableResult) -> dict[str, list[Matching]]:
    groups: dict[str, list[Matching]] = {}
    for one in sorted(table.matchings, key=lambda one: one.size):
        groups.setdefault(one.columns, []).append(one)
    return groups


def _stated(table: TableResult) -> list[Matching]:
    """Return the groupings that the paper gives numbers for, whichever two columns it took."""
    if table.name != _STATED_ON:
        return []
    return [one for one in table.matchings if one.size == _STATED_SIZE and one.columns in (TWO, SIX_QUASI)]


def _near(ours: int, theirs: int) -> bool:
    return abs(ours - theirs) <= NEAR * theirs


def _count(number: int | None) -> str:
    return "too many to count" if number is None else f"{number:,}"
