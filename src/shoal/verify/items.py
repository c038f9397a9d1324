"""Baskets of the source as the release has them: sets of items in groups, unfolded as the manifest says.

The verifier shares no code with the part of shoal that unfolds the source for publishing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.errors import InputError
from shoal.manifest import Attribute, Basket, ManifestError, read_entry
from shoal.sources.base import DerivedSource, Source
from shoal.sources.columns import UNCHANGED
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check
from shoal.verify.rows import Release

_NOTHING = "none"
Derived: TypeAlias = Mapping[str, tuple[str, Callable[[pa.Array], pa.Array] | None]]  # column -> origin, its function


@dataclass(frozen=True, slots=True, eq=False)
class DerivedRows(DerivedSource):
    """A source of which some columns are computed from others."""

    derived: Derived

    @classmethod
    def of(cls, source: Source, schema: pa.Schema, derived: Derived) -> DerivedRows:
        """Return the source with the columns of another schema, some of them derived."""
        return cls(source.name, schema, source.n_rows, UNCHANGED, source, derived)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        plans = {name: self.derived.get(name, (name, None)) for name in columns}
        dictionary = [origin for name, (origin, compute) in plans.items() if compute is not None or name in coded]
        origins = list(dict.fromkeys(origin for origin, _ in plans.values()))
        for batch in self.given.batches(origins, dictionary=dictionary):
            arrays = []
            for origin, compute in plans.values():
                own = batch.column(origin)
                if compute is not None:
                    own = own if pa.types.is_dictionary(own.type) else own.dictionary_encode()
                    own = compute(own.dictionary).take(own.indices)
                arrays.append(own)
            yield pa.RecordBatch.from_arrays(arrays, names=columns)


@dataclass(frozen=True, slots=True)
class Folded:
    """A column of baskets, and the attributes of the release in place of it."""

    column: str
    separator: str
    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]  # the items of each attribute

    def unfold(self, texts: pa.Array, place: int) -> pa.Array:
        """Return the items of a group in every text; items that the manifest does not list go to the first group.

        >>> basket = Folded("basket", ";", ("basket 1", "basket 2"), (("milk",), ("bread", "tea")))
        >>> [basket.unfold(pa.array(["tea; bread;milk", "ale"]), place).to_pylist() for place in (0, 1)]
        [['milk', 'ale'], ['bread;tea', 'none']]
        """
        lists = pc.split_pattern(texts, pattern=self.separator)
        flat = pa.table({"row": pc.list_parent_indices(lists), "item": pc.utf8_trim_whitespace(pc.list_flatten(lists))})
        others = [item for group in self.groups[1:] for item in group]
        listed = pc.is_in(flat["item"], pa.array(self.groups[place] if place else others, pa.string()))
        mine = flat.filter(pc.and_(listed if place else pc.invert(listed), pc.not_equal(flat["item"], "")))
        mine = mine.group_by(["row", "item"]).aggregate([]).sort_by([("row", "ascending"), ("item", "ascending")])
        ends = np.searchsorted(mine["row"].to_numpy(), np.arange(len(texts) + 1)).astype(np.int32)
        items = pa.ListArray.from_arrays(pa.array(ends), mine["item"].combine_chunks())
        joined = pc.if_else(pa.array(np.diff(ends) > 0), pc.binary_join(items, self.separator), _NOTHING)
        return pc.if_else(pc.is_valid(texts), joined, None)


def unfold_source(manifest: Manifest, source: Source) -> Any:
    """Return the source with baskets unfolded as the manifest says; without baskets, the source itself."""
    folded = read_items(manifest.written.items, manifest.attributes)
    return unfold(source, folded) if folded else source


def unfold(source: Source, folded: Sequence[Folded]) -> DerivedRows:
    """Return the source with some columns of baskets unfolded."""
    derived: dict[str, tuple[str, Callable[[pa.Array], pa.Array] | None]] = {}
    for one in folded:
        if one.column not in source.schema.names:
            raise InputError(f"{source.name} lacks the column {one.column!r}, which the release was unfolded from")
        if not pa.types.is_string(source.schema.field(one.column).type):
            raise InputError(f"column {one.column!r} of {source.name} is not text, as items are")
        derived |= {name: (one.column, partial(one.unfold, place=place)) for place, name in enumerate(one.names)}
    kept = [field for field in source.schema if field.name not in [one.column for one in folded]]
    schema = pa.schema([*kept, *(pa.field(name, pa.string()) for name in derived)])
    return DerivedRows.of(source, schema, derived)


def read_items(raw: Mapping[str, Any], attributes: Sequence[Attribute]) -> tuple[Folded, ...]:
    """Return the manifest's entries on baskets, or raise a ManifestError that names the faulty one."""
    roles = {attribute.name: attribute.role for attribute in attributes}
    return tuple(_read_basket(column, entry, roles) for column, entry in raw.items())


def _read_basket(column: str, entry: Any, roles: Mapping[str, str]) -> Folded:
    where = f"items.{column}"
    basket = read_entry(Basket, entry, where)
    separator, groups, sensitive = basket.separator, basket.groups, basket.sensitive
    every = (*groups, sensitive)
    listed = [item for group in every for item in group]
    if len(set(listed)) != len(listed) or any(item in ("", _NOTHING) or separator in item for item in listed):
        raise ManifestError(f"{where} lists an item twice, or a text that cannot be an item")
    names = [f"{column} {number}" for number in range(1, len(groups) + 1)]
    secret = f"{column} sensitive"
    if column in roles or any(roles.get(name) != "quasi" for name in names) or f"{column} {len(groups) + 1}" in roles:
        raise ManifestError(f"{where}.groups and the quasi attributes of the release do not fit")
    if (sensitive or secret in roles) and roles.get(secret) != "sensitive":
        raise ManifestError(f"{where}.sensitive has items, and {secret!r} is not a sensitive attribute")
    if secret in roles:
        return Folded(column, separator, (*names, secret), every)
    return Folded(column, separator, tuple(names), groups)


def check_items(manifest: Manifest, release: Release) -> Check:
    """Check that sets are made of the items of their groups, and that every listed item occurs in a row."""
    labelled = {attribute.name for attribute in manifest.labelled}  # labels are checked against their covers
    try:
        for one in read_items(manifest.written.items, manifest.attributes):
            for place, name in enumerate(one.names):
                if name not in labelled and (fault := _find_fault(one, place, name, release)):
                    return Check("items", False, fault)
    except ManifestError as fault:
        return Check("items", False, str(fault))
    return Check("items", True, "sets are made of listed items, and every listed item occurs")


def _find_fault(one: Folded, place: int, name: str, release: Release) -> str | None:
    """Return a fault of the sets in a column, of which the empty one is written as a word."""
    column = release.names[name]
    distinct = f"SELECT DISTINCT {column}::VARCHAR AS v FROM release WHERE {column} IS NOT NULL"
    texts = sorted(set(release.engine.read(distinct)["v"].to_pylist()) - {_NOTHING})
    sets = [one.unfold(pa.array(texts, pa.string()), group).to_pylist() for group in range(len(one.groups))]
    if sets.pop(place) != texts or any(other != _NOTHING for column in sets for other in column):
        return f"sets of {name} are not made of items of their group, in order"
    used = {item for text in texts for item in text.split(one.separator)} - {_NOTHING}
    listed = set(one.groups[place])
    if not used <= listed:
        return f"{name} has {len(used - listed)} items that are not listed"
    return f"the manifest lists items of {name} that no row has" if len(used) < len(listed) else None
