"""What a release publishes of one attribute: labels, and what each of them stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray
from shoal.core.errors import InputError
from shoal.verify.covers import Cover

ABSENT = "(missing)"  # how a missing value reads among labels


@dataclass(frozen=True, slots=True, eq=False)
class LinkColumn:
    """One attribute that an adversary may know: its labels, in the order of their codes, and their covers."""

    name: str
    kind: str
    labels: tuple[str, ...]  # (n_labels,)
    covers: tuple[Cover, ...]  # (n_labels,)
    format: str | None = None
    length: int | None = None


def coded(column: pa.ChunkedArray | pa.Array) -> tuple[CodeArray, list[str | None]]:
    """Return (n,) the code of each value, and the values as texts; None for missing ones."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    values: list[str | None] = pc.cast(whole.dictionary, pa.string()).to_pylist()
    codes = np.asarray(whole.indices.cast(pa.int32()).fill_null(len(values)), dtype=np.int32)
    if whole.null_count:
        values.append(None)
    return codes, values


def labelled(name: str, entry: Mapping[str, Any], values: list[str | None], where: str) -> LinkColumn:
    """Return the column of a release's attribute, given the distinct texts that the file has of it."""
    declared = entry.get("labels")
    if declared is None:
        covers = [own_cover(value) for value in values]
    elif any(value is None or value not in declared for value in values):
        raise InputError(
            f"{where}: column {name!r} has texts that its manifest does not explain; run `shoal verify` on it"
        )
    else:
        covers = [declared[value] for value in values]
    texts = tuple(ABSENT if value is None else value for value in values)
    return LinkColumn(name, entry["kind"], texts, tuple(covers), entry.get("format"), entry.get("length"))


def own_cover(value: str | None) -> Cover:
    """Return the cover of a value that is published as it is."""
    return {"missing": True} if value is None else {"values": [value]}
