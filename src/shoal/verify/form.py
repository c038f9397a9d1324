"""The form of a release: its rows are as many as declared, under declared labels, and account for the source's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from shoal.core.errors import InputError
from shoal.core.wording import count_noun
from shoal.verify.manifest import Manifest
from shoal.verify.result import FALSE_ALARM, Check, CheckedGuarantee

if TYPE_CHECKING:
    from shoal.sources.base import Source


class Answer(NamedTuple):
    """What is found of the rows of a release."""

    checks: list[Check]
    guarantees: list[CheckedGuarantee] | None = None  # None: its form does not let them be judged


def demand_columns(source: Source, names: Sequence[str]) -> None:
    """Raise an InputError unless a source has all columns that a release is compared by."""
    absent = [name for name in names if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {count_noun(len(absent), 'column')} of the release: {', '.join(absent)}")


def check_rows(n_rows: int, manifest: Manifest) -> Check:
    """There are rows, as many as the manifest says."""
    if not n_rows:
        return Check("rows", False, "the release is empty")
    same = n_rows == manifest.rows
    return Check("rows", same, f"{n_rows} rows" + ("" if same else f", the manifest says {manifest.rows}"))


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """The rows of the source, and how many of them lack a value that they must have.

    Where missing values changed rows, a row lacks one for sure or perhaps: at most ``perhaps`` more are dropped.
    """

    rows: int
    dropped: int
    perhaps: int = 0
    least: int = 0  # dropped rows, whichever rows the missing values are in

    @property
    def most_dropped(self) -> int:
        """Rows that can have been dropped."""
        return min(self.rows, self.dropped + self.perhaps)


def count_source(rows: int, dropped: int, moved: Sequence[int]) -> SourceCounts:
    """Return the rows of a source in which *dropped* lack a value; *moved* are missing values that changed rows."""
    return SourceCounts(rows, dropped, sum(moved), max(moved, default=0))


def check_source_counts(manifest: Manifest, published: int, source: SourceCounts) -> Check:
    """Published, withheld and dropped rows are those of the source, or of a sample of it."""
    stated = published + manifest.withheld + manifest.dropped
    sums = f"{published} published + {manifest.withheld} withheld + {manifest.dropped} dropped"
    if manifest.one_per is not None:
        return Check("source counts", stated <= source.rows, f"{sums} are some of the source's {source.rows} rows")
    if manifest.sample is not None:
        return _check_sample(manifest, stated, sums, source)
    fewest, most = (
        (max(source.dropped, source.least), source.most_dropped) if manifest.missing_policy == "drop" else (0, 0)
    )
    if not fewest <= manifest.dropped <= most:
        found = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        detail = f"{found} source rows have values missing, the manifest says {manifest.dropped}"
        return Check("source counts", False, detail)
    verb = "is" if stated == source.rows else "is not"
    return Check("source counts", stated == source.rows, f"{sums} {verb} the source's {source.rows} rows")


def _check_sample(manifest: Manifest, stated: int, sums: str, source: SourceCounts) -> Check:
    assert manifest.sample is not None  # noqa: S101 - the caller asked
    share = manifest.sample
    plausible = stated <= source.rows and is_likely_sample(stated, source.rows, share)
    if plausible and manifest.missing_policy == "drop":
        plausible = (
            manifest.dropped <= source.most_dropped and stated - manifest.dropped <= source.rows - source.dropped
        )
        if source.perhaps == 0:
            kept = stated - manifest.dropped, source.rows - source.dropped
            plausible = is_likely_sample(manifest.dropped, source.dropped, share) and is_likely_sample(*kept, share)
    verb = "is" if plausible else "is not"
    return Check("source counts", plausible, f"{sums} {verb} a plausible sample of the source's {source.rows} rows")


def is_likely_sample(drawn: int, rows: int, share: float) -> bool:
    """Whether as many of some rows can have been drawn, each with the chance *share*, but for one chance in 10**12.

    Chernoff: a binomial number is as far from its mean, on this side, with a chance of at most exp(-rows * D), D being
    the divergence of the two shares.

    >>> is_likely_sample(1000, 10_000, 0.1), is_likely_sample(1300, 10_000, 0.1), is_likely_sample(11, 10, 0.5)
    (True, False, False)
    """
    if not 0 <= drawn <= rows:
        return False
    exponent = sum(
        part * math.log(part / (rows * chance)) for part, chance in ((drawn, share), (rows - drawn, 1 - share)) if part
    )
    return exponent <= math.log(2 / FALSE_ALARM)
