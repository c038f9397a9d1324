"""Truthfulness: what must be equal in both tables, and what the comparison says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.core.arrays import BoolArray
from shoal.core.errors import InputError
from shoal.verify.contents import Contents
from shoal.verify.covers import Covers
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check

if TYPE_CHECKING:
    from shoal.sources.base import Source


def contents_for(manifest: Manifest, published: pa.Schema, source: Source) -> Contents:
    """Return the hasher for the columns that must be equal in both tables."""
    absent = [a.name for a in manifest.attributes if a.name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    exact = [a.name for a in manifest.attributes if not a.boxed and manifest.traced(a)]
    kinds = [manifest.kind_of(name, published.field(name).type, source.schema.field(name).type) for name in exact]
    return Contents(exact, kinds, manifest.missing_tokens)


def occurring(covers: Sequence[Covers], met: Sequence[BoolArray]) -> Iterator[Check]:
    """A record spreads over the values under its label; one that nobody has would make it look more diverse."""
    for cover, found in zip(covers, met, strict=True):
        if cover.attribute.role == "sensitive":
            name, absent = cover.attribute.name, cover.unmet(found)
            detail = f"labels of {name} cover {absent} values that no source row has"
            yield Check("values", not absent, detail if absent else f"all values that labels of {name} cover occur")


def truth(false_rows: int, manifest: Manifest) -> Check:
    """Every published row is a source row told less precisely, and no source row is told twice."""
    traced = sum(manifest.traced(attribute) for attribute in manifest.attributes)
    by = "" if traced == len(manifest.attributes) else f", by the {traced} columns that follow from the source"
    if false_rows:
        return Check("truth", False, f"{false_rows} published rows cover no source row of their own{by}")
    if not traced:
        return Check("truth", True, "no column follows from the source, so no row can be told from another")
    return Check("truth", True, f"every published row covers a source row of its own{by}")
