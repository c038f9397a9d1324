"""A table and its release compared column by column and in pairs, and the riskiest classes; for the data holder only.

Labels are spread over the values below them as for the score of marginals, but suppressed values are a separate
category. *Kept* has the same meaning for a column, a pair and a release: see docs/utility.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.audit.marginals import ComparedColumn, RowSample, SourceTables, cut_numbers, factor, list_labels
from shoal.columns.base import read_traces
from shoal.core.arrays import AnyIntArray, FloatArray, IntArray
from shoal.core.kernels import same_rows
from shoal.core.wording import count_noun, percent
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.forms.base import Form
from shoal.release.sliced.table import BUCKET
from shoal.reports.pages import explain_change
from shoal.reports.plots import Plot, compare_bars, compare_histograms
from shoal.reports.svg import count_text, tick_step
from shoal.reports.templates import number
from shoal.sources.base import Source
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.scales import Numbers
from shoal.taxonomies.tree import Cover, free_label
from shoal.utility.rows import Binned, Tables, spread_records, sum_weights

UNCHANGED = "Published as it was."
MOST_ROWS = 1_000_000
FEWEST_ROWS = 100_000
_MOST_CELLS = 10_000_000  # rows times columns, held in memory for each side
_MOST_TEXTS = 20_000  # different texts of an unlabelled column
_BARS, _BINS, _GROUPS = 12, 24, 10  # of categories, of numbers, and of each side of a table
_TAIL = 0.005  # share of the records that may lie beyond the first and the last bin of numbers
_REST = ("other values", "missing", "no value of the table", "suppressed")  # the last groups
MOST_CLASSES = 500
_MOST_NAMED = 5  # rows of a class
_DEVIATION = "standard deviation"
_QUARTILES = {"first quartile": 0.25, "median": 0.5, "third quartile": 0.75}


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of an attribute's leaves: ``group`` has the number of the group of each bin between *edges*.

    The last four are other values, missing ones, values outside the table, and suppressed ones, whose bin is the last.
    """

    edges: IntArray  # (n_bins,)
    group: IntArray  # (n_bins,)
    names: tuple[str, ...]

    def gather(self, counts: FloatArray, axis: int = 0) -> FloatArray:
        found = np.zeros((len(self.names), *np.delete(counts.shape, axis)))
        np.add.at(found, self.group, np.moveaxis(counts, axis, 0))
        return np.moveaxis(found, 0, axis)


class Published(NamedTuple):
    """A published column: the text of each row, and the cover and the bounds of each text."""

    item: AnyIntArray  # (n_rows,)
    texts: pa.Array  # (n_items,)
    covers: list[Cover] | None  # (n_items,) None for unlabelled values
    bounds: FloatArray  # (n_items, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Contingency:
    """A table of two columns in shares of all records, and the share of it that is kept."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    before: FloatArray  # (n_rows, n_columns)
    after: FloatArray
    kept: float


@dataclass(frozen=True, slots=True, eq=False)
class RiskyClass:
    """Records with equal published values: their number, the values, and their rows in the published file."""

    records: int
    values: tuple[str, ...]
    rows: tuple[int, ...]  # from 1 on, the first ones


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """The rows of a table and of its release, or large random samples of them, in memory."""

    form: Form
    tables: SourceTables
    source: pa.Table
    published: pa.Table  # whole records
    n_published: int  # rows of the release
    texts: tuple[str, ...]  # columns that are not compared because they have too many different texts

    @classmethod
    def read(cls, policy: Policy, source: Source, released: Source, form: Form) -> BeforeAfter:
        """Read both sides once; for large tables, a random sample."""
        policy, source = unfold_baskets(policy, source)
        attributes = form.manifest.attributes
        hidden = {name for name, trace in read_traces(form.manifest.techniques).items() if trace.hidden}
        hidden |= {*policy.names("identifier"), policy.survey_weight or ""}
        names = [name for name in attributes if name in source.schema.names and name not in hidden]
        most = min(max(_MOST_CELLS // max(len(names), 1), FEWEST_ROWS), MOST_ROWS)
        before, after = RowSample(most), RowSample(most)
        read = list(filter(None, [*names, policy.survey_weight]))
        for batch in source.batches(read, dictionary=read):
            before.add(batch)
        columns = released.schema.names
        texts = [name for name in columns if name != BUCKET or form.whole_records]
        cluster = None if len(texts) == len(columns) else BUCKET
        for _ in after.watch(released.batches(columns, dictionary=texts), cluster):
            pass
        rows, whole = before.table(), form.complete_rows(after.table(), np.random.default_rng(0))
        values = {name: factor(rows.column(name))[1] for name in names if not attributes[name].boxed}
        many = {name: own for name, own in values.items() if len(own) > _MOST_TEXTS}
        long = tuple(name for name, own in many.items() if not decimal_numbers(own.drop_null())[1].all())
        names = [name for name in names if name not in long]
        tables = SourceTables.of_rows(policy, rows, names, before.n_rows)
        return cls(form, tables, rows, whole, after.n_rows, long)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.tables.columns)

    @cached_property
    def found(self) -> Tables:
        return self.tables.tabulate(self.published, self.form.manifest)

    @cached_property
    def records(self) -> tuple[FloatArray, FloatArray]:
        """The weight of each row, before and after; the weights of a sample add up to the whole table's."""
        one, other = self.tables.bins.records, self.tables.weigh(self.published)
        times = self.tables.n_all_rows / max(len(one), 1), self.n_published / max(len(other), 1)
        return one * times[0], other * times[1]

    def measure_kept(self, *names: str) -> float:
        places = [self.names.index(name) for name in names]
        return self.found.measure_kept(places, self.tables.bins.count(places))[0]

    def draw(self, name: str) -> Plot:
        """Draw the shares of a column's values before and after over one axis."""
        one, weight = self._column(name), self.tables.weight
        ends = None if one.places is None else self._choose_ends(one)
        if ends is None:
            groups = self._choose_groups(one, _BARS)
        else:
            if self._read(one).covers is None and isinstance(one.taxonomy.scale, Numbers):
                taxonomy = cut_numbers(np.append(ends[:-1], np.inf))
                taxonomy = taxonomy if one.taxonomy.missing is None else taxonomy.with_missing()
                one = ComparedColumn(name, taxonomy, ends[:-1])
            groups = _cut_groups(one, ends)
        counted = np.stack([groups.gather(counts) for counts in self._count(one, groups.edges)])  # (3, n_groups)
        shown = [at for at in range(len(groups.names)) if counted[:, at].any() or at < len(groups.names) - len(_REST)]
        rows = [(groups.names[at], *(count_text(round(each)) for each in counted[:, at].tolist())) for at in shown]
        sums = [
            "records" if weight not in table.column_names else "survey weights"
            for table in (self.source, self.published)
        ]
        heads = (name, f"{sums[0]} before", f"{sums[1]} after", "of these, not spread")
        shares = counted[:2] / np.maximum(counted[:2].sum(axis=1, keepdims=True), 1e-9)
        named = {groups.names[at]: (float(shares[0, at]), float(shares[1, at])) for at in shown}
        if ends is None:
            return compare_bars(name, named, heads, rows)
        text = _write_date if one.taxonomy.scale.kind == "date" else number
        return compare_histograms(name, ends.tolist(), named, heads, rows, tick_text=text)

    def summarize(self, name: str) -> list[tuple[str, str, str]]:
        """Return statistics of a column before and after; numbers are summarized over the records with a value.

        The statistics of ranges use their middles; the smallest and largest possible values are added.
        """
        one = self._column(name)
        codes, values = factor(self.source.column(name))
        before = sum_weights(codes, self.records[0], len(values))
        published = self._read(one)
        after = sum_weights(published.item, self.records[1], len(published.texts))
        covers = published.covers or [{} for _ in published.texts]
        hidden = np.array(["any" in cover for cover in covers], dtype=np.bool_)
        n_before = np.bincount(codes, minlength=len(values)) * self.tables.n_all_rows / max(len(codes), 1)
        n_after = np.bincount(published.item, minlength=len(hidden)) * self.n_published / max(len(published.item), 1)
        rows = [("records", count_text(self.tables.n_all_rows), count_text(self.n_published))]
        if self.tables.weight is not None:
            published_too = self.tables.weight in self.published.column_names
            weight = count_text(round(after.sum())) if published_too else "not published"
            rows.append(("sum of survey weights", count_text(round(before.sum())), weight))
        if hidden.any():
            rows.append(("suppressed", "0", count_text(round(n_after[hidden].sum()))))
        if one.places is None:
            sides = []
            gone = np.array([cover == {"missing": True} for cover in covers], dtype=np.bool_)
            gone |= published.texts.is_null().to_numpy(zero_copy_only=False)
            missing = values.is_null().to_numpy(zero_copy_only=False)
            for texts, counts, n_missing, known in (
                (values, before, n_before[missing].sum(), ~missing),
                (published.texts, after, n_after[gone].sum(), ~gone & ~hidden),
            ):
                most = int(np.where(known, counts, -1.0).argmax()) if known.any() else None
                mode = "–" if most is None else f"{texts[most]} ({percent(counts[most] / max(counts.sum(), 1e-9))})"
                distinct = int((counts[known] > 0).sum())
                sides.append((count_text(round(n_missing)), f"{distinct:,}", mode))
            rows += zip(("missing", "different values", "most frequent"), *sides, strict=True)
            return rows
        numbers, valid = one.read_numbers(values)
        known = ~np.isnan(published.bounds[:, 0]) & ~hidden
        for what, own, other in (("missing", ~valid, ~known & ~hidden), ("records with a value", valid, known)):
            rows.append((what, count_text(round(n_before[own].sum())), count_text(round(n_after[other].sum()))))
        low, high = published.bounds[known].T
        true = _describe_numbers(numbers[valid], before[valid])
        middle, lowest, highest = (_describe_numbers(each, after[known]) for each in ((low + high) / 2, low, high))
        dated = one.taxonomy.scale.kind == "date"
        for what, value in true.items():
            write = _write_date if dated and what != _DEVIATION else number
            text = write(middle[what])
            if (low < high).any():  # the deviations of the ends are not bounds
                bounds = "" if what == _DEVIATION else f" ({write(lowest[what])} to {write(highest[what])})"
                text = f"about {text}{bounds}"
            rows.append((what, write(value), text))
        return rows

    def judge(self, name: str, shares: Mapping[str, float] | None, markers: int = 0) -> str:
        """Describe the publication of a column in Markdown.

        *shares* has the shares of unchanged and changed values, *markers* the number of the source's values that mean
        missing.
        """
        entry = self.form.manifest.techniques.get(name)
        changed = "" if entry is None else f"Changed before anything else: {explain_change(entry)} "
        if shares is None or name not in self.names:
            made = self.form.describe_values(name).removesuffix("; see below")
            return changed if made == "changed: see above" else f"{changed}Published: {made}."
        emptied = f" {count_noun(markers, 'value')} of the source mean missing and became empty." if markers else ""
        if shares["unchanged"] == 1:
            return f"Published as it was, but{emptied}" if emptied else UNCHANGED
        text = f"{', '.join(f'{percent(share)} {change}' for change, share in shares.items() if share)}."
        means = {row[0]: row[1:] for row in self.summarize(name)}
        if "mean" in means:
            (_, records), (before, after) = means["records with a value"], means["mean"]
            text += f" The mean of {records} records with a value is {after}; it was {before}."
        return text + emptied

    def cross(self, first: str, second: str) -> Contingency:
        """Return the table of two columns before and after, in a limited number of groups."""
        ones = [self._column(name) for name in (first, second)]
        groups = [
            self._choose_groups(one, _GROUPS) if one.places is None else self._merge_bins(one, _GROUPS) for one in ones
        ]
        bins = [
            (np.searchsorted(each.edges, one.encode(self.source.column(one.name)), side="right") - 1, one, each)
            for one, each in zip(ones, groups, strict=True)
        ]
        shape = [len(each.group) for each in groups]
        key = np.ravel_multi_index([own for own, _, _ in bins], shape)  # the source has no suppressed value
        before = sum_weights(key, self.records[0], shape[0] * shape[1]).reshape(shape)
        after = spread_records([self._bin(one, each.edges) for _, one, each in bins], self.records[1])
        sides = []
        for table in (before, after):
            merged = groups[1].gather(groups[0].gather(table), axis=1)
            sides.append(merged / max(merged.sum(), 1e-9))
        used = [(sides[0] + sides[1]).sum(axis=1 - axis) > 0 for axis in (0, 1)]
        names = [tuple(np.array(each.names, dtype=object)[own]) for each, own in zip(groups, used, strict=True)]
        cut = [side[np.ix_(*used)] for side in sides]
        return Contingency(names[0], names[1], cut[0], cut[1], self.measure_kept(first, second))

    @cached_property
    def risky_classes(self) -> tuple[RiskyClass, ...] | None:
        """The smallest classes of the published file; None if rows are not whole records, or are a sample."""
        names = self.form.class_columns
        if (
            not (self.form.of_people and self.form.whole_records and names)
            or self.published.num_rows < self.n_published
        ):
            return None
        first, group = same_rows([factor(self.published.column(name))[0] for name in names])
        sizes = np.bincount(group, minlength=len(first))
        smallest = np.argsort(sizes, kind="stable")[:MOST_CLASSES]
        wanted = np.zeros(len(first), dtype=np.bool_)
        wanted[smallest] = True
        members = np.flatnonzero(wanted[group])
        members = members[np.argsort(group[members], kind="stable")]
        start = np.searchsorted(group[members], smallest)
        values = self.published.select(names).take(pa.array(first[smallest])).to_pylist()
        return tuple(
            RiskyClass(
                size,
                tuple("missing" if row[name] is None else str(row[name]) for name in names),
                tuple((members[at : at + min(size, _MOST_NAMED)] + 1).tolist()),
            )
            for size, at, row in zip(sizes[smallest].tolist(), start.tolist(), values, strict=True)
        )

    def _column(self, name: str) -> ComparedColumn:
        return self.tables.columns[self.names.index(name)]

    def _read(self, one: ComparedColumn) -> Published:
        item, texts = factor(self.published.column(one.name))
        labels = list_labels(one, self.published.column(one.name), self.form.manifest)
        if labels is None:
            numbers, valid = (
                one.read_numbers(texts) if one.places is not None else (np.zeros(len(texts)), texts.is_valid())
            )
            return Published(item, texts, None, np.repeat(np.where(valid, numbers, np.nan)[:, np.newaxis], 2, axis=1))
        shown = pc.cast(texts, pa.string()).to_pylist()
        covers = [{"missing": True} if text is None else labels[text] for text in shown]
        return Published(item, texts, covers, one.find_bounds(covers))

    def _bin(self, one: ComparedColumn, edges: IntArray) -> Binned:
        """Return the published column in bins; the last one is for suppressed values."""
        column = self.published.column(one.name)
        binned = self.tables.bin_published(one, column, self.form.manifest, edges, self.records[1])
        return replace(binned, shares=np.column_stack([binned.shares, binned.shares.sum(axis=1) == 0]))

    def _count(self, one: ComparedColumn, edges: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (n_bins,) the records of each bin before and after, and the latter without spread labels."""
        bins = np.searchsorted(edges, one.encode(self.source.column(one.name)), side="right") - 1
        binned = self._bin(one, edges)
        items = sum_weights(binned.item, self.records[1], len(binned.shares))
        sure = binned.shares > 1 - 1e-9
        return sum_weights(bins, self.records[0], len(edges)), items @ binned.shares, items @ sure

    def _choose_ends(self, one: ComparedColumn) -> FloatArray | None:
        """Return round ends of bins; None if the numbers are constant or absent."""
        codes, values = factor(self.source.column(one.name))
        numbers, valid = one.read_numbers(values)
        counts = sum_weights(codes, self.records[0], len(values))
        if not valid.any() or np.ptp(numbers[valid]) == 0:
            return None
        low, high = _find_quantiles(numbers[valid], counts[valid], [_TAIL, 1 - _TAIL])
        low, high = (low, high) if low < high else (numbers[valid].min(), numbers[valid].max())
        step = tick_step(high - low, _BINS)
        step = step if isinstance(one.taxonomy.scale, Numbers) and not one.taxonomy.scale.whole else max(step, 1.0)
        return np.arange(np.floor(low / step), np.floor(high / step) + 2) * step

    def _choose_groups(self, one: ComparedColumn, most: int) -> Groups:
        """Return the most frequent values of a column as groups, in their order if they are all values."""
        leaves = sum_weights(one.encode(self.source.column(one.name)), self.records[0], one.unknown + 1)
        n_values = one.taxonomy.n_leaves - (one.taxonomy.missing is not None)
        own = leaves[:n_values]
        chosen = np.argsort(-own, kind="stable")[:most]
        chosen = chosen[own[chosen] > 0]
        if own[chosen].sum() < own.sum() / 2 and (groups := _find_level(one, n_values, most)) is not None:
            return groups
        if (own > 0).sum() <= most:
            chosen = np.sort(chosen)
        edges = np.unique([0, *chosen, *(chosen + 1), n_values, one.taxonomy.n_leaves, one.unknown + 1])
        rank = {leaf: place for place, leaf in enumerate(chosen.tolist())}
        group = [rank.get(edge, len(rank)) for edge in edges[:-1].tolist()]
        names = [one.taxonomy.labels[leaf] for leaf in chosen.tolist()]
        return _end_groups(one, edges, group, names)

    def _merge_bins(self, one: ComparedColumn, most: int) -> Groups:
        """Return the bins of numbers that scores use, merged into fewer groups."""
        n_values = one.taxonomy.n_leaves - (one.taxonomy.missing is not None)
        edges = self.tables.bins.edges[self.names.index(one.name)]
        edges = edges[edges < n_values][:: max(1, -(-int((edges < n_values).sum()) // most))]
        stops = np.append(edges[1:], n_values)
        names = [one.taxonomy.label(*ends) for ends in zip(edges.tolist(), stops.tolist(), strict=True)]
        edges = np.append(edges, [n_values, one.taxonomy.n_leaves, one.unknown + 1])
        return _end_groups(one, np.unique(edges), list(range(len(names))), names)


def _end_groups(one: ComparedColumn, edges: IntArray, group: Sequence[int], names: Sequence[str]) -> Groups:
    """Add the groups of other values, of missing ones, of values outside the table, and of suppressed ones."""
    n_values = one.taxonomy.n_leaves - (one.taxonomy.missing is not None)
    group = [own for own, edge in zip([*group, 0, 0], edges[:-1].tolist(), strict=False) if edge < n_values]
    last = [len(names) + (2 if edge == one.unknown else 1) for edge in edges[:-1].tolist() if edge >= n_values]
    named = list(names)
    for rest in _REST:
        named.append(free_label(rest, named))
    return Groups(edges, np.array([*group, *last, len(named) - 1]), tuple(named))


def _cut_groups(one: ComparedColumn, ends: FloatArray) -> Groups:
    """Return groups of leaves between numbers; the first and the last group include everything beyond."""
    n_values = one.taxonomy.n_leaves - (one.taxonomy.missing is not None)
    places = np.zeros(0) if one.places is None else one.places[:n_values]
    inner = np.searchsorted(places, ends[1:-1])
    write = _write_date if one.taxonomy.scale.kind == "date" else number
    edges = np.concatenate([[0], inner, [n_values]])
    group = [place for place in range(len(ends) - 1) if edges[place] < edges[place + 1]]
    names = [
        f"{write(low)} to below {write(high)}" for low, high in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
    names[0], names[-1] = f"below {write(ends[1])}", f"{write(ends[-2])} or more"
    return _end_groups(one, np.unique([*edges, one.taxonomy.n_leaves, one.unknown + 1]), group, names)


def _find_level(one: ComparedColumn, n_values: int, most: int) -> Groups | None:
    """Return the groups of the lowest level of the tree with at most *most* groups; None if only the root is left."""
    for height in range(1, one.taxonomy.height):
        nodes = one.taxonomy.node_at(height)[:n_values]
        edges = np.flatnonzero(np.diff(nodes, prepend=-1))
        if 1 < len(edges) <= most:
            names = [one.taxonomy.labels[node] for node in nodes[edges].tolist()]
            whole = np.unique([*edges, n_values, one.taxonomy.n_leaves, one.unknown + 1])
            return _end_groups(one, whole, list(range(len(names))), names)
    return None


def _find_quantiles(numbers: FloatArray, counts: FloatArray, wanted: Sequence[float]) -> list[float]:
    """Return the smallest numbers that these shares of the records do not exceed."""
    order = np.argsort(numbers)
    below = np.cumsum(counts[order])
    places = np.searchsorted(below, np.array(wanted) * below[-1] - 1e-9)
    return [float(each) for each in numbers[order][np.minimum(places, len(order) - 1)]]


def _describe_numbers(numbers: FloatArray, counts: FloatArray) -> dict[str, float]:
    """Return mean, standard deviation and quartiles; NaN without records."""
    if not counts.sum() > 0:
        return dict.fromkeys(("mean", _DEVIATION, *_QUARTILES), float("nan"))
    mean = float(np.average(numbers, weights=counts))
    deviation = float(np.sqrt(np.average((numbers - mean) ** 2, weights=counts)))
    return {"mean": mean, _DEVIATION: deviation} | dict(
        zip(_QUARTILES, _find_quantiles(numbers, counts, list(_QUARTILES.values())), strict=True)
    )


def _write_date(day: float) -> str:
    return "–" if np.isnan(day) else str(np.datetime64(round(day), "D"))
