"""Centres of groups in place of quasi values: means that add up, and modes that occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.covers import NumberLine
from shoal.verify.manifest import Averaging, Manifest
from shoal.verify.reading import PublishedRows
from shoal.verify.result import Check
from shoal.verify.techniques.base import ColumnValues, as_texts, compare_missing, gather_values
from shoal.verify.techniques.checking import gap_fault
from shoal.verify.techniques.numbers import Grid, find_sum_fault

if TYPE_CHECKING:
    from shoal.sources.base import Source


def check_averages(rows: PublishedRows, manifest: Manifest, source: Source | None) -> list[Check]:
    """Return a check for every quasi attribute; *source* is the one with determined columns recomputed."""
    if manifest.averaging is None:
        return []
    quasi = manifest.of_role("quasi")
    named = [attribute.name for attribute in quasi]
    published = gather_values(rows.batches(named), named)
    original: dict[str, ColumnValues] = {}
    if source is not None:
        known = [a.name for a in quasi if _follows(manifest, a)]
        if known:
            original = gather_values(source.batches(known, dictionary=known), known, manifest.missing_tokens)
    gaps = {name: gap_fault(manifest, name, values) for name, values in published.items()}
    return [_check(a, manifest.averaging, gaps[a.name], published[a.name], original.get(a.name)) for a in quasi]


def _follows(manifest: Manifest, attribute: Attribute) -> bool:
    """Whether the values that were averaged follow from the source, in whatever rows they were."""
    declared = manifest.techniques.get(attribute.name)
    return declared is None or declared.determined or declared.moved


def _check(
    attribute: Attribute,
    averaging: Averaging,
    gap: str | None,
    published: ColumnValues,
    original: ColumnValues | None,
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
    attribute: Attribute, averaging: Averaging, published: ColumnValues, original: ColumnValues | None
) -> str | None:
    grid = Grid(0 if attribute.kind == "date" else averaging.decimals)
    mine = _numbers(attribute.model_copy(update={"format": None}), published)
    if mine is None or not bool(grid.holds(mine[0]).all()):
        return "has averages that are no numbers of the declared decimals, or no dates"
    if original is None:
        return None
    if fault := compare_missing(published, original):
        return fault
    theirs = _numbers(attribute, original)
    if theirs is None:
        return "has values in the source that are no numbers, or no dates"
    if not len(mine[0]):
        return None
    steps = grid.steps(mine[0])
    bounds = grid.steps(theirs[0][[0, -1]])
    if steps[0] < bounds[0] or steps[-1] > bounds[1]:
        return "has averages outside what the source's numbers span"
    if averaging.numbers == "mean":
        return find_sum_fault((steps, mine[1]), theirs, grid)
    known = bool(np.isin(steps, grid.steps(theirs[0])).all())
    return None if known else "has medians that are no numbers of the source"


def _numbers(attribute: Attribute, values: ColumnValues) -> tuple[FloatArray, IntArray] | None:
    if attribute.kind == "number":
        return values.numbers()
    return values.ascending(NumberLine(attribute, ()).numbers(values.values))


def _mode_fault(attribute: Attribute, published: ColumnValues, original: ColumnValues) -> str | None:
    if published.missing and not original.missing:
        return "has missing values, and the source has none"
    known = pc.is_in(published.texts(), value_set=_categories(attribute, original.values))
    return None if bool(pc.all(known, min_count=0).as_py()) else "has values that no source row has"


def _categories(attribute: Attribute, values: pa.Array) -> pa.Array:
    """Return what values of the source are as categories: codes are filled up with zeros, and 0 has no sign."""
    texts = as_texts(values)
    if pa.types.is_floating(values.type):
        texts = pc.if_else(pc.equal(texts, "-0"), "0", texts)
    if attribute.length and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        filled = pc.utf8_lpad(texts, width=attribute.length, padding="0")
        texts = pc.if_else(pc.utf8_is_digit(texts), filled, texts)
    return texts
