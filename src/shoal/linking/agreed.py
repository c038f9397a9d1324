"""Releases by an agency's plan: a class is a set of points, and reading goes by its number, not by its labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.linking.columns import LinkColumn, coded
from shoal.linking.linkable import Agreement, Candidates, Linkable, Shown
from shoal.release.forms.agreed import L_DIVERSITY, AgreedPlan, parse_plan, read_plan_file
from shoal.release.release import CLASS

MOST_ENTRIES = 2**26  # of the classes' counts, once for each of their boxes
MOST_LISTED = 2**23  # values of all boxes' sides


def read_agreed(name: str, folder: Path, manifest: Mapping[str, Any]) -> AgreedPlan:
    """Read the plan of a release; it must be the one that the manifest names."""
    entry = manifest["agreed"]
    try:
        file, sha256, digest = str(entry["file"]), entry["sha256"], entry["digest"]
    except (TypeError, KeyError):
        raise InputError(f"{name}: its manifest does not name a plan; run `shoal verify` on it") from None
    path = folder / Path(file).name
    if not path.is_file():  # of a pipe or a device the end may never come
        raise InputError(f"{name}: it lacks its plan; run `shoal verify` on it")
    content = read_plan_file(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{name}: its plan is not the file that the manifest names; run `shoal verify` on it")
    agreed = parse_plan(content, f"{Path(file).name} of {name}")
    if agreed.digest != digest:
        raise InputError(f"{name}: its plan has another digest than the manifest says; run `shoal verify` on it")
    return agreed


def of_agreed(
    name: str, table: pa.Table, manifest: Mapping[str, Any], agreed: AgreedPlan, known: set[str], sensitive: str
) -> Linkable:
    """Return a release by a plan: each class as boxes that have every one of its points once, and nothing else."""
    entries = manifest["attributes"]
    if sensitive != agreed.sensitive or any(quasi not in entries for quasi in agreed.quasi):
        raise InputError(f"{name}: its attributes are not those of its plan; run `shoal verify` on it")
    row = _classes(table.column(CLASS), agreed.classes, name)
    names = [quasi for quasi in agreed.quasi if quasi in known]
    places = [agreed.quasi.index(quasi) for quasi in names]
    sizes = np.bincount(row, minlength=agreed.classes).astype(np.int64)
    here = sizes[agreed.number] > 0  # whose class is not in the table is not in the table
    owner, low, high = boxes_of(agreed.number[here], [agreed.points[place][here] for place in places])
    text, texts = coded(table.column(sensitive))
    candidates = Candidates.of(texts, entries[sensitive].get("labels"), name)
    counts = candidates.counted(row, text, agreed.classes)
    if int(counts.distinct[owner].sum()) > MOST_ENTRIES:
        raise UsageError(f"{name}: the classes of its plan are too scattered to be linked with others")
    columns, labels = [], np.empty(low.shape, dtype=np.int32)
    for side, (quasi, at) in enumerate(zip(names, places, strict=True)):
        column, labels[:, side] = _side(quasi, entries[quasi], agreed.quasi_values[at], low[:, side], high[:, side])
        columns.append(column)
    return Linkable(
        name=name,
        columns=tuple(columns),
        labels=labels,
        histograms=counts.merged(owner, np.arange(len(owner)), len(owner), len(candidates.values)),
        records=sizes[owner],
        values=candidates.values,
        n_rows=table.num_rows,
        agreement=Agreement(
            digest=agreed.digest,
            promised=int(agreed.promise.least) if agreed.promise.model == L_DIVERSITY else None,
            owner=owner,
            shown=_shown(table, row, names, agreed.classes),
        ),
    )


def boxes_of(number: CodeArray, points: Sequence[CodeArray]) -> tuple[IntArray, CodeArray, CodeArray]:
    """Return disjoint boxes of each class that hold its points and no others: (n,) class, (n, d) from and below.

    Points become runs along the last attribute, runs that are alike and neighbours along the one before are joined,
    and so on.

    >>> boxes_of(np.zeros(5, int), [np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 1])])[1:]
    (array([[0, 0],
           [2, 1]], dtype=int32), array([[2, 2],
           [3, 2]], dtype=int32))
    """
    owner = number.astype(np.int64)
    low = np.stack(points, axis=1).astype(np.int32) if points else np.zeros((len(number), 0), dtype=np.int32)
    first = np.lexsort((*low.T[::-1], owner))
    owner, low = owner[first], low[first]
    new = np.ones(len(owner), dtype=np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (low[1:] != low[:-1]).any(axis=1)  # points that nobody can tell apart are one
    owner, low = owner[new], low[new]
    high = low + 1
    for side in reversed(range(low.shape[1])):
        others = [place for place in range(low.shape[1]) if place != side]
        sides = np.stack([end[:, place] for place in reversed(others) for end in (high, low)] + [low[:, side]])
        order = np.lexsort((sides[-1], *sides[:-1], owner))
        owner, low, high = owner[order], low[order], high[order]
        alike = (owner[1:] == owner[:-1]) & (low[1:, side] == high[:-1, side])
        for place in others:
            alike &= (low[1:, place] == low[:-1, place]) & (high[1:, place] == high[:-1, place])
        begins = np.flatnonzero(np.append(True, ~alike))
        ends = np.append(begins[1:], len(owner)) - 1
        joined = high[begins]
        joined[:, side] = high[ends, side]
        owner, low, high = owner[begins], low[begins], joined
    return owner, low, high


def _classes(column: pa.ChunkedArray, n_classes: int, name: str) -> IntArray:
    """Return (n_rows,) the class of each row, from 0."""
    codes, texts = coded(column)
    numbers = [int(text) if text is not None and text.isdecimal() and len(text) < 10 else 0 for text in texts]
    if not texts or min(numbers) < 1 or max(numbers) > n_classes:
        raise InputError(f"{name}: column {CLASS!r} has classes that its plan does not have; run `shoal verify` on it")
    return np.array(numbers, dtype=np.int64)[codes] - 1


def _side(
    name: str, entry: Mapping[str, Any], values: Sequence[str], low: CodeArray, high: CodeArray
) -> tuple[LinkColumn, CodeArray]:
    """Return one attribute's sides of boxes as a column, and (n_boxes,) which of them each box has."""
    ranges, label = np.unique(low.astype(np.int64) * (len(values) + 1) + high, return_inverse=True)
    begins, ends = np.divmod(ranges, len(values) + 1)
    if int((ends - begins).sum()) > MOST_LISTED:
        raise UsageError(f"the classes of a plan have too many different ranges of {name!r} to be linked with others")
    spans = list(zip(begins.tolist(), ends.tolist(), strict=True))
    covers = tuple({"values": values[begin:end]} for begin, end in spans)
    labels = tuple(values[begin] for begin, _ in spans)
    column = LinkColumn(name, entry["kind"], labels, covers, entry.get("format"), entry.get("length"))
    return column, label.reshape(-1).astype(np.int32)


def _shown(table: pa.Table, row: IntArray, names: Sequence[str], n_classes: int) -> tuple[Shown, ...]:
    """Return the number of each class and its published labels, for people to read."""
    example = np.zeros(n_classes, dtype=np.int64)
    example[row] = np.arange(len(row))
    shown = [Shown(CLASS, np.arange(n_classes, dtype=np.int32), tuple(str(one + 1) for one in range(n_classes)))]
    for name in names:
        codes, texts = coded(table.column(name))
        shown.append(Shown(name, codes[example], tuple(text or "" for text in texts)))
    return tuple(shown)
