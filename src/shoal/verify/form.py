"""The form of a release: its rows are as many as declared, under declared labels, and account for the source's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.core.wording import count_noun
from shoal.manifest import Attribute
from shoal.verify.manifest import Manifest
from shoal.verify.reading import PublishedRows
from shoal.verify.result import FALSE_ALARM, Check, CheckedGuarantee

if TYPE_CHECKING:
    from shoal.sources.base import Source


LabelCounts = Mapping[str, IntArray]  # attribute -> the rows of each label, then of missing values, then of other texts


class Answer(NamedTuple):
    """What is found of the rows of a release."""

    checks: list[Check]
    guarantees: list[CheckedGuarantee] | None = None  # None: its form does not let them be judged
    labels: LabelCounts = MappingProxyType({})


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


def check_dictionaries(rows: PublishedRows) -> list[Check]:
    """Return the failed check of a file that holds values beside its rows, once all of it was read; else nothing."""
    unused = rows.list_unused()
    if not unused:
        return []
    return [Check("dictionaries", False, f"the dictionaries of {', '.join(unused)} hold values that no row has")]


def check_labels(manifest: Manifest, labels: LabelCounts) -> Check:
    """No attribute has texts that are no labels, and none has labels that no row has."""
    unknown = [name for name, counts in labels.items() if counts[-1]]
    if unknown:
        return Check("labels", False, f"values in {', '.join(unknown)} are not labels of the manifest")
    idle = {one.name: int((labels[one.name][: len(one.labels or {})] == 0).sum()) for one in manifest.labelled}
    listed = [f"{name} ({times})" for name, times in idle.items() if times]
    if listed:
        return Check("labels", False, f"the manifest lists labels that no row has: {', '.join(listed)}")
    return Check("labels", True, "every label is declared, and every declared label occurs")


@dataclass(frozen=True, slots=True)
class SourceRows:
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


def count_source(rows: int, dropped: int, moved: IntArray) -> SourceRows:
    """Return the rows of a source in which *dropped* lack a value, and *moved* tells of values that changed rows."""
    return SourceRows(rows, dropped, int(moved.sum()), int(moved.max(initial=0)))


def check_source_counts(manifest: Manifest, published: int, source: SourceRows) -> Check:
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


def count_unpublished(manifest: Manifest, published: int, source: SourceRows) -> int:
    """Return how many source rows that lack no value for sure are not published, by what the manifest says."""
    if manifest.sample is None and manifest.one_per is None and not source.perhaps:
        return manifest.withheld
    return max(0, source.rows - source.dropped - published)


def _check_sample(manifest: Manifest, stated: int, sums: str, source: SourceRows) -> Check:
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


_TOLERANCE = 1e-9  # for sums in another order


@dataclass(frozen=True, slots=True)
class _Column:
    """What the rows publish of one attribute, label by label."""

    records: IntArray
    leaves: FloatArray
    widths: FloatArray
    total: int | None  # leaves of the taxonomy; None: each value is published as it is, however many there are

    def loss(self, withheld: int, stated: float | None) -> float:
        """Return the loss of ARX: 0 if all values are as they were, 1 if none is more than the root.

        Withheld records lose nothing of an attribute that has one value only, which the rows cannot tell.
        """
        n = float(self.records.sum()) + withheld
        if self.total is None:
            return withheld / n if stated else 0.0
        most = n * (self.total - 1)
        return (float(self.records @ self.leaves) + withheld * self.total - n) / most if most else 0.0


def check_figures(manifest: Manifest, labels: LabelCounts) -> list[Check]:
    """Compare every figure with the rows; skipped where a label covers values that the policy did not list."""
    figures = manifest.written.utility
    if figures is None or not manifest.rows:  # an empty release fails another check
        return []
    attributes = [attribute for attribute in manifest.attributes if attribute.role != "insensitive"]
    unlisted = [attribute.name for attribute in attributes if attribute.boxed and attribute.domain is None]
    if unlisted or manifest.written.items:
        why = f"no declared taxonomy shows what labels of {', '.join(unlisted) or 'items'} cover"
        return [Check("utility", True, f"not recomputed: {why}", done=False)]
    columns = {one.name: _read_column(one, labels, manifest.rows) for one in attributes}
    quasi = [columns[attribute.name] for attribute in attributes if attribute.role == "quasi"]
    n = manifest.rows + manifest.withheld
    stated = figures.losses
    losses = {name: column.loss(manifest.withheld, stated.get(name)) for name, column in columns.items()}
    spanned = sum(float(column.records @ column.widths) for column in quasi) / len(quasi)
    mean = sum(math.log1p(losses[attribute.name]) for attribute in attributes if attribute.role == "quasi") / len(quasi)
    found = {
        "um": sum(float(column.records @ (1 / column.leaves)) for column in columns.values()) / (n * len(columns)),
        "ncp": (spanned + manifest.withheld) / n,
        "loss": math.expm1(mean),
    }
    wrong = [name for name, figure in figures.of_table.items() if not _same(figure, found[name])]
    if stated and (set(stated) != set(losses) or not all(_same(stated[name], losses[name]) for name in stated)):
        wrong.append("attribute-loss")
    if wrong:
        return [Check("utility", False, f"the figures of the rows differ from the manifest's: {', '.join(wrong)}")]
    return [Check("utility", True, "the figures are those of the rows")]


def _same(stated: float, found: float) -> bool:
    return math.isclose(stated, found, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _read_column(attribute: Attribute, labels: LabelCounts, n_rows: int) -> _Column:
    """Return how many rows are under each label of an attribute; without labels all are as they were."""
    domain = attribute.domain
    if domain is None:
        return _Column(np.array([n_rows]), np.ones(1), np.zeros(1), None)
    reach = [*(domain.labels[label] for label in attribute.labels or {}), (1, 0.0)]  # missing values have no label
    leaves, widths = np.array(reach, dtype=np.float64).T
    return _Column(labels[attribute.name][: len(reach)], leaves, widths, domain.leaves)
