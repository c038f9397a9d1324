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

    *moved* are missing values, by attribute, that changed rows: a row lacks one of these perhaps.
    """

    rows: int
    lacking: int
    moved: Sequence[int] = ()

    @property
    def most(self) -> int:
        """Rows that can have been dropped."""
        return min(self.rows, self.lacking + sum(self.moved))


count_source = SourceCounts


def check_source_counts(manifest: Manifest, published: int, source: SourceCounts) -> Check:
    """Published, withheld and dropped rows are those of the source, or of a sample of it."""
    stated, dropped = published + manifest.withheld + manifest.dropped, manifest.dropped
    sums = f"{published} published + {manifest.withheld} withheld + {dropped} dropped"
    if manifest.one_per is not None:
        return Check("source counts", stated <= source.rows, f"{sums} are some of the source's {source.rows} rows")
    drops = manifest.missing_policy == "drop"
    if manifest.sample is not None:
        drawn = [(stated, source.rows)]
        if drops and not any(source.moved):
            drawn += [(dropped, source.lacking), (stated - dropped, source.rows - source.lacking)]
        likely = all(is_likely_sample(*counts, manifest.sample) for counts in drawn)
        likely = likely and (not drops or (dropped <= source.most and stated - dropped <= source.rows - source.lacking))
        verb = "is" if likely else "is not"
        return Check("source counts", likely, f"{sums} {verb} a plausible sample of the source's {source.rows} rows")
    fewest, most = (max(source.lacking, *source.moved, 0), source.most) if drops else (0, 0)
    if not fewest <= dropped <= most:
        found = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        return Check("source counts", False, f"{found} source rows have values missing, the manifest says {dropped}")
    verb = "is" if stated == source.rows else "is not"
    return Check("source counts", stated == source.rows, f"{sums} {verb} the source's {source.rows} rows")


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
