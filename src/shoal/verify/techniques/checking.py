"""Every changed column by itself: whether it looks as declared and, with the source, whether it can come from it.

Centres of groups in place of quasi values are checked here, too: means that add up, and modes that occur.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray, IntArray, KeyArray
from shoal.manifest import Attribute
from shoal.verify.boxes import TooLargeError, count_unmatched_labels, find_unmet
from shoal.verify.coding import PointReader
from shoal.verify.contents import Contents, common_type
from shoal.verify.covers import Covers, NumberLine
from shoal.verify.form import demand_columns
from shoal.verify.items import RewrittenRows
from shoal.verify.manifest import Averaging, Manifest
from shoal.verify.numbering import LabelReader, Tally
from shoal.verify.reading import PublishedRows, encode
from shoal.verify.result import Check
from shoal.verify.techniques import base
from shoal.verify.techniques.declared import Moved, RankSwapping, Tokens
from shoal.verify.techniques.numbers import Grid, Microaggregation, find_average_fault
from shoal.verify.techniques.pram import Pram, count_texts
from shoal.verify.truth import check_values

if TYPE_CHECKING:
    from shoal.sources.base import Source


def check_techniques(
    rows: PublishedRows,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    source: Source | None,
    expected: Source | None,
) -> list[Check]:
    """Return a check for every changed column; *expected* is the source with determined columns recomputed."""
    by_name = {attribute.name: attribute for attribute in manifest.attributes}
    boxed = {name for name in manifest.techniques if by_name[name].boxed}
    shown = _read_shown(rows, manifest, covers, boxed)
    needed = [name for name in shown if _needs_source(manifest.techniques[name], manifest)]
    original: dict[str, base.ColumnValues] = {}
    if source is not None and needed:
        original = base.gather_values(source.batches(needed, dictionary=needed), needed, manifest.missing_tokens)
    checks: list[Check] = []
    for name, declared in manifest.techniques.items():
        if name in boxed or manifest.is_averaged(by_name[name]):
            if isinstance(declared, Tokens):
                fault = declared.find_fault(shown[name])
                if fault is None and name in original:
                    fault = declared.compare_texts(shown[name], original[name])
                checks.append(_check(declared, fault, _describe(declared, compared=name in original)))
            elif isinstance(declared, Moved) and name in boxed and source is not None:
                checks += _check_labelled(declared, manifest, rows, covers[name], source)
            elif not declared.determined:
                form = "labels" if name in boxed else "averages"
                checks.append(_check(declared, None, f"only {form} of its values are published"))
            continue
        fault = _find_fault(declared, manifest, shown[name], original.get(name))
        if fault is None and isinstance(declared, Moved) and expected is not None:
            fault = _find_strange(declared, manifest, rows, expected)
            if fault is None and isinstance(declared, RankSwapping):
                fault = _find_far(declared, manifest, rows, expected)
        if fault is None and isinstance(declared, Microaggregation):
            fault = _find_few(declared, manifest, rows)
        if fault is None and isinstance(declared, Pram) and source is not None:
            fault = _find_impossible(declared, manifest, rows, source)
        compared = name in original or (declared.moved and expected is not None)
        checks.append(_check(declared, fault, _describe(declared, compared=compared)))
    return checks


def _read_shown(
    rows: PublishedRows, manifest: Manifest, covers: Mapping[str, Covers], boxed: Collection[str]
) -> dict[str, base.ColumnValues]:
    """Return the values of changed columns, and the tokens that labels list, whatever rows have them."""
    plain = [name for name in manifest.techniques if name not in boxed]
    shown = base.gather_values(rows.batches(plain), plain) if plain else {}
    for name in boxed:
        if isinstance(manifest.techniques[name], Tokens):
            listed = sorted({value for one in covers[name].entries() for value in one.get("values", ())})
            shown[name] = base.ColumnValues(pa.array(listed, pa.string()), np.ones(len(listed), dtype=np.int64), 0)
    return shown


def _needs_source(declared: base.Declared, manifest: Manifest) -> bool:
    """Whether a column is compared with the source; edges of a sample were looked up in rows that nobody knows."""
    return declared.compared and ((manifest.sample is None and manifest.one_per is None) or not declared.determined)


def _find_fault(
    declared: base.Declared, manifest: Manifest, published: base.ColumnValues, original: base.ColumnValues | None
) -> str | None:
    fault = gap_fault(manifest, declared.column, published) or declared.find_fault(published)
    persons = isinstance(declared, Tokens) and declared.of is not None
    if fault is None and persons and manifest.promises and bool((published.counts > 1).any()):
        fault = "has the same token in several rows: the rows of a class may be one person's"
    return fault if fault is not None or original is None else declared.compare(published, original)


def gap_fault(manifest: Manifest, name: str, published: base.ColumnValues) -> str | None:
    """Return a fault if rows lack a value of an attribute, and yet such rows are said to be dropped."""
    needed = {attribute.name for attribute in manifest.attributes if attribute.role != "insensitive"}
    if manifest.missing_policy == "drop" and name in needed and published.missing:
        return "has missing values, and rows that lack a value are said to be dropped"
    return None


def _describe(declared: base.Declared, *, compared: bool) -> str:
    """Return the results of the checks of a column, of which none failed."""
    found = (declared.finding, declared.agreement if compared else "")
    return ", and ".join(filter(None, found)) or "values are compared only if the source is given"


def _check(declared: base.Declared, fault: str | None, good: str) -> Check:
    """Return the check of a column; the part of a technique that no file shows is in its text, and fails nothing."""
    about = f"{declared.column} ({declared.technique})"
    limit = "" if declared.determined else f"; {declared.uncheckable} is not checkable from files"
    return Check.of("technique", fault and f"{about} {fault}", f"{about}: {good}{limit}")


def _find_strange(declared: Moved, manifest: Manifest, rows: PublishedRows, source: Source) -> str | None:
    """Return a fault if a value, together with the group it stayed in, occurs more often than in the source.

    Groups are given by those columns *within* that stand beside the value and follow from the source. Of columns that
    moved together, the first that is published as it is stands for the others.
    """
    columns, exact = _find_traced(declared, manifest)
    shown = [a.name for a in manifest.attributes if not a.boxed and not manifest.is_averaged(a) and a.name in columns]
    moved = [name for name in declared.together if name in shown]
    if declared.column != moved[0]:
        return None
    names = [*moved, *(name for name in declared.within if name in exact)]
    kinds = [common_type(rows.schema.field(columns[n]).type, source.schema.field(n).type) for n in names]
    contents = Contents(names, kinds, manifest.missing_tokens)
    stated, held = Tally(), Tally()
    for batch in rows.batches([columns[name] for name in names]):
        stated.add(contents.hashes(pa.RecordBatch.from_arrays(batch.columns, names=names)))
    for batch in source.batches(names, dictionary=names):
        held.add(contents.hashes(batch))
    strange = int(find_unmet(*stated.result(), *held.result()).sum())
    if not strange:
        return None
    groups = " in the groups that they stay in" if len(names) > 1 else ""
    return f"has {strange} values more often than the source{groups}"


def _find_few(declared: Microaggregation, manifest: Manifest, rows: PublishedRows) -> str | None:
    """Return a fault if more averages stand in fewer than k rows than rows that are not published explain.

    Averages of the group that stand beside each other are counted together, within strata that follow from the source.
    """
    columns, exact = _find_traced(declared, manifest)
    plain = {a.name for a in manifest.attributes if not a.boxed and not manifest.is_averaged(a)}
    shown = [name for name in (declared.column, *declared.columns) if name in columns and name in plain]
    names = [columns[name] for name in (*shown, *(name for name in declared.strata if name in exact))]
    contents, tally = Contents(names, [rows.schema.field(name).type for name in names], ()), Tally()
    for batch in rows.batches(names):
        present = [pc.is_valid(column) for column in batch.columns[: len(shown)]]
        tally.add(contents.hashes(batch.filter(reduce(pc.or_, present))))
    lacking = int(np.maximum(declared.k - tally.result()[1], 0).sum())
    if lacking <= manifest.withheld + manifest.dropped:
        return None
    return f"has averages that stand in fewer than {declared.k} rows"


def _find_impossible(declared: Pram, manifest: Manifest, rows: PublishedRows, source: Source) -> str | None:
    """Return a fault if the matrix cannot lead to the published frequencies, by strata if these are published."""
    columns, exact = _find_traced(declared, manifest)
    names = [*declared.strata, declared.column]
    kept = [n for n, name in enumerate(declared.strata) if name in exact and name not in manifest.techniques]
    kinds = [source.schema.field(name).type for name in names]
    for place in (*kept, -1):
        kinds[place] = common_type(rows.schema.field(columns[names[place]]).type, kinds[place])
    shown = [(columns[names[place]], kinds[place]) for place in (*kept, -1)]
    published = count_texts(rows.batches([name for name, _ in shown]), [kind for _, kind in shown])
    original = count_texts(source.batches(names, dictionary=names), kinds, manifest.missing_tokens)
    whole = manifest.sample is None and manifest.one_per is None
    return declared.compare_counts(published, original, declared.read_as(kinds), kept, whole=whole)


def _find_traced(declared: base.Declared, manifest: Manifest) -> tuple[dict[str, str], list[str]]:
    """Return the columns of attributes beside a changed one, and those that follow from the source."""
    part = next(place for place, names in enumerate(manifest.parts) if declared.column in names)
    columns = dict(zip(manifest.parts[part], manifest.part_columns[part], strict=True))
    return columns, [a.name for a in manifest.attributes if not a.boxed and manifest.is_traced(a) and a.name in columns]


def _find_far(declared: RankSwapping, manifest: Manifest, rows: PublishedRows, source: Source) -> str | None:
    """Return a fault if a number's rank cannot be as near to that of its row's own number as the window says.

    Rows that agree in all columns that follow from the source are compared in the order of their numbers: if any way
    to tell whose they are keeps to the window, this one does. Rows that were withheld leave nothing to compare.
    """
    columns, names = _find_traced(declared, manifest)
    contents = Contents(
        names,
        [common_type(rows.schema.field(columns[n]).type, source.schema.field(n).type) for n in names],
        manifest.missing_tokens,
    )
    tokens = pa.array(list(manifest.missing_tokens), type=pa.string())

    def read(batches: Iterator[pa.RecordBatch]) -> tuple[KeyArray, FloatArray]:
        keys, numbers = [], []
        for batch in batches:
            keys.append(contents.hashes(pa.RecordBatch.from_arrays(batch.columns[1:], names=names)))
            values, places = encode(batch.column(0))
            found = np.where(base.missing_values(values, tokens), np.nan, base.as_numbers(values))
            numbers.append(np.append(found, np.nan)[places])
        key, number = np.concatenate(keys), np.concatenate(numbers)
        order = np.lexsort((number, key))
        return key[order], number[order]

    if not names:
        return None
    wanted = [declared.column, *names]
    own_keys, own = read(rows.batches([columns[name] for name in wanted]))
    keys, numbers = read(source.batches(wanted, dictionary=wanted))
    if not np.array_equal(own_keys, keys) or not declared.find_far(own, numbers):
        return None
    return "has numbers whose ranks are farther from the source's than the window"


def _check_labelled(
    declared: Moved, manifest: Manifest, rows: PublishedRows, cover: Covers, source: Source
) -> Iterator[Check]:
    """Check a column that is published as labels, and whose values changed rows."""
    name, labels, points = declared.column, LabelReader(cover.attribute), PointReader([cover], manifest.missing_tokens)
    demand, supply = np.zeros(labels.radix, dtype=np.int64), np.zeros(cover.width, dtype=np.int64)
    for batch in rows.batches([name]):
        demand += np.bincount(labels.read(batch.column(0)), minlength=labels.radix)
    for batch in source.batches([name], dictionary=[name]):
        supply += np.bincount(points.points(batch)[:, 0], minlength=cover.width)
    yield from check_values([cover], [supply > 0])
    try:
        lost = count_unmatched_labels(cover, demand, supply)
    except TooLargeError:
        why = "labels are not matched with values: there are too many"
        yield Check("technique", True, f"{name} ({declared.technique}): {why}", done=False)
        return
    fault = f"has {lost} labels that cover no value of the source of their own" if lost else None
    yield _check(declared, fault, "every label covers a value of the source")


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedRows(RewrittenRows):
    """A source with some columns recomputed."""

    declared: Mapping[str, base.Declared]
    missing: pa.Array

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source, recomputed ones in their new types."""
        kinds = {name: one.recompute(pa.array([], pa.string())).type for name, one in self.declared.items()}
        return pa.schema([pa.field(field.name, kinds.get(field.name, field.type)) for field in self.source.schema])

    def _read(self, wanted: list[str], dictionary: Collection[str]) -> Iterator[pa.RecordBatch]:
        changed = [name for name in wanted if name in self.declared]
        inner = [*(name for name in dictionary if name in wanted and name not in changed), *changed]
        for batch in self.source.batches(wanted, dictionary=inner or ()):
            arrays = {name: batch.column(name) for name in wanted}
            for name in changed:
                own = self._recompute(self.declared[name], arrays[name])
                coded_text = name in dictionary and pa.types.is_string(own.dictionary.type)
                arrays[name] = own if coded_text else own.dictionary_decode()
            yield pa.RecordBatch.from_arrays([arrays[name] for name in wanted], names=wanted)

    def _recompute(self, declared: base.Declared, column: pa.Array) -> pa.DictionaryArray:
        values, places = encode(column)
        present = ~base.missing_values(values, self.missing)
        found = declared.recompute(values.filter(pa.array(present)))
        place = np.append(np.where(present, np.cumsum(present) - 1, -1), -1)[places].astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(place, mask=place < 0), found)


def recompute_source(manifest: Manifest, source: Source) -> Any:
    """Return the source with the columns recomputed that the manifest determines, or as it is if there are none."""
    declared = {name: one for name, one in manifest.techniques.items() if one.determined}
    demand_columns(source, list(manifest.techniques))
    tokens = pa.array(list(manifest.missing_tokens), type=pa.string())
    return ExpectedRows(source, declared, tokens) if declared else source


def check_averages(rows: PublishedRows, manifest: Manifest, source: Source | None) -> list[Check]:
    """Return a check for every quasi attribute; *source* is the one with determined columns recomputed."""
    if manifest.averaging is None:
        return []
    quasi = manifest.of_role("quasi")
    named = [attribute.name for attribute in quasi]
    published = base.gather_values(rows.batches(named), named)
    original: dict[str, base.ColumnValues] = {}
    if source is not None:
        known = [a.name for a in quasi if _follows(manifest, a)]
        if known:
            original = base.gather_values(source.batches(known, dictionary=known), known, manifest.missing_tokens)
    gaps = {name: gap_fault(manifest, name, values) for name, values in published.items()}
    return [_check_centre(a, manifest.averaging, gaps[a.name], published[a.name], original.get(a.name)) for a in quasi]


def _follows(manifest: Manifest, attribute: Attribute) -> bool:
    """Whether the values that were averaged follow from the source, in whatever rows they were."""
    declared = manifest.techniques.get(attribute.name)
    return declared is None or declared.determined or declared.moved


def _check_centre(
    attribute: Attribute,
    averaging: Averaging,
    gap: str | None,
    published: base.ColumnValues,
    original: base.ColumnValues | None,
) -> Check:
    if attribute.kind in ("number", "date"):
        fault = gap or _number_fault(attribute, averaging, published, original)
        good = "averages are on their grid" if original is None else "averages are where the source's numbers are"
    else:
        fault = gap or (None if original is None else _mode_fault(attribute, published, original))
        good = "one value stands for all of a group" if original is None else "every value occurs in the source"
    detail = f"{attribute.name}: {good}" if fault is None else f"{attribute.name} {fault}"
    return Check("averages", fault is None, detail)


def _number_fault(
    attribute: Attribute, averaging: Averaging, published: base.ColumnValues, original: base.ColumnValues | None
) -> str | None:
    grid = Grid(0 if attribute.kind == "date" else averaging.decimals)
    mine = _numbers(attribute.model_copy(update={"format": None}), published)
    if mine is None or not bool(grid.holds(mine[0]).all()):
        return "has averages that are no numbers of the declared decimals, or no dates"
    if original is None:
        return None
    if fault := base.compare_missing(published, original):
        return fault
    theirs = _numbers(attribute, original)
    if theirs is None:
        return "has values in the source that are no numbers, or no dates"
    steps, means = grid.steps(mine[0]), averaging.numbers == "mean"
    if fault := find_average_fault((steps, mine[1]), theirs, grid, add_up=means):
        return fault
    known = means or bool(np.isin(steps, grid.steps(theirs[0])).all())
    return None if known else "has medians that are no numbers of the source"


def _numbers(attribute: Attribute, values: base.ColumnValues) -> tuple[FloatArray, IntArray] | None:
    if attribute.kind == "number":
        return values.numbers()
    return values.ascending(NumberLine(attribute, ()).numbers(values.values))


def _mode_fault(attribute: Attribute, published: base.ColumnValues, original: base.ColumnValues) -> str | None:
    if published.missing and not original.missing:
        return "has missing values, and the source has none"
    known = pc.is_in(published.texts(), value_set=_categories(attribute, original.values))
    return None if bool(pc.all(known, min_count=0).as_py()) else "has values that no source row has"


def _categories(attribute: Attribute, values: pa.Array) -> pa.Array:
    """Return what values of the source are as categories: codes are filled up with zeros, and 0 has no sign."""
    texts = base.as_texts(values)
    if pa.types.is_floating(values.type):
        texts = pc.if_else(pc.equal(texts, "-0"), "0", texts)
    if attribute.length and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        filled = pc.utf8_lpad(texts, width=attribute.length, padding="0")
        texts = pc.if_else(pc.utf8_is_digit(texts), filled, texts)
    return texts
