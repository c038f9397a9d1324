"""Baskets of the source as the release has them: sets of items in groups, unfolded by what the manifest says.

Written for this purpose alone: the verifier shares no code with what unfolded the source for publishing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.errors import InputError
from shoal.manifest import Attribute, Basket, ManifestError, read_entry
from shoal.verify.manifest import Manifest
from shoal.verify.reading import FAULTS, PublishedRows, coded
from shoal.verify.result import Check

if TYPE_CHECKING:
    from shoal.sources.base import Source


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenRows(ABC):
    """A source of which some columns are computed anew; it reads like the source itself."""

    source: Source

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.source.name

    @property
    def n_rows(self) -> int | None:
        """The number of rows, if known."""
        return self.source.n_rows

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns after that."""

    def digest(self) -> str:
        """Return the digest of the source."""
        return self.source.digest()

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows, columns in the order asked; text columns named in *dictionary* come coded."""
        return self._read(list(self.schema.names if columns is None else columns), dictionary)

    @abstractmethod
    def _read(self, wanted: list[str], dictionary: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Read these columns."""


_NOTHING = "none"


class ItemsError(Exception):
    """What the manifest says of items cannot be understood; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A column of baskets, and the attributes of the release in place of it."""

    column: str
    separator: str
    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]  # the items of each attribute

    def unfold(self, entries: pa.Array) -> list[pa.Array]:
        """Return what each text has of each group; items that the manifest does not list go to the first.

        >>> basket = Folded("basket", ";", ("basket 1", "basket 2"), (("milk",), ("bread", "tea")))
        >>> [column.to_pylist() for column in basket.unfold(pa.array(["tea; bread;milk", "ale"]))]
        [['milk', 'ale'], ['bread;tea', 'none']]
        """
        lists = pc.split_pattern(entries, pattern=self.separator)
        item = pc.utf8_trim_whitespace(pc.list_flatten(lists))
        said = pc.not_equal(item, "")
        owner = np.asarray(pc.list_parent_indices(lists).filter(said), dtype=np.int64)
        item = item.filter(said)
        group_of = {name: group for group, names in enumerate(self.groups) for name in names}
        every = item.unique().sort()
        group = np.array([group_of.get(name, 0) for name in every.to_pylist()], dtype=np.int64)
        rank = np.asarray(pc.index_in(item, value_set=every), dtype=np.int64)
        order = np.lexsort((rank, group[rank], owner))
        owner, rank = owner[order], rank[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (owner[1:] != owner[:-1]) | (rank[1:] != rank[:-1])
        owner, rank = owner[new], rank[new]
        # runs: the items of one text in one group
        begins = np.ones(len(owner), dtype=np.bool_)
        begins[1:] = (owner[1:] != owner[:-1]) | (group[rank[1:]] != group[rank[:-1]])
        first = np.flatnonzero(begins)
        edges = pa.array(np.append(first, len(owner)).astype(np.int32))
        texts = pc.binary_join(pa.ListArray.from_arrays(edges, every.take(pa.array(rank))), self.separator)
        columns = []
        for g in range(len(self.groups)):
            place = np.full(len(entries), -1, dtype=np.int64)
            mine = np.flatnonzero(group[rank[first]] == g)
            place[owner[first[mine]]] = mine
            columns.append(texts.take(pa.array(place, mask=place < 0)).fill_null(_NOTHING))
        return columns


@dataclass(frozen=True, slots=True, eq=False)
class UnfoldedRows(RewrittenRows):
    """A source whose baskets are unfolded."""

    folded: tuple[Folded, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source, and the attributes of baskets after them."""
        baskets = [one.column for one in self.folded]
        kept = [field for field in self.source.schema if field.name not in baskets]
        return pa.schema([*kept, *(pa.field(name, pa.string()) for one in self.folded for name in one.names)])

    def _read(self, wanted: list[str], dictionary: Collection[str]) -> Iterator[pa.RecordBatch]:
        asked = [one for one in self.folded if not set(one.names).isdisjoint(wanted)]
        derived = {name for one in asked for name in one.names}
        plain = [name for name in wanted if name not in derived]
        baskets = [one.column for one in asked]
        inner = [*baskets, *(name for name in plain if name in dictionary)]
        for batch in self.source.batches([*plain, *baskets], dictionary=inner):
            arrays = {name: batch.column(name) for name in plain}
            for one in asked:
                basket = batch.column(one.column)
                for name, texts in zip(one.names, one.unfold(basket.dictionary), strict=True):
                    distinct = texts.dictionary_encode()
                    codes = distinct.indices.take(basket.indices)
                    own = pa.DictionaryArray.from_arrays(codes, distinct.dictionary)
                    arrays[name] = own if name in dictionary else own.dictionary_decode()
            yield pa.RecordBatch.from_arrays([arrays[name] for name in wanted], names=wanted)


def unfold_source(manifest: Manifest, source: Source) -> Any:
    """Return the source with its baskets unfolded as the manifest says, or as it is if the manifest says nothing."""
    folded = read_items(manifest.items, manifest.attributes)
    for one in folded:
        if one.column not in source.schema.names:
            raise InputError(f"{source.name} lacks the column {one.column!r}, which the release was unfolded from")
        if not pa.types.is_string(source.schema.field(one.column).type):
            raise InputError(f"column {one.column!r} of {source.name} is not text, as items are")
    return UnfoldedRows(source, folded) if folded else source


def read_items(raw: Mapping[str, Any], attributes: Sequence[Attribute]) -> tuple[Folded, ...]:
    """Return the manifest's entries on baskets, or raise an ItemsError that says what is wrong with them."""
    roles = {attribute.name: attribute.role for attribute in attributes}
    return tuple(_read_basket(column, entry, roles) for column, entry in raw.items())


def _read_basket(column: str, entry: Any, roles: Mapping[str, str]) -> Folded:
    where = f"items.{column}"
    try:
        basket = read_entry(Basket, entry, where)
    except ManifestError as fault:
        raise ItemsError(str(fault)) from None
    separator, groups, sensitive = basket.separator, basket.groups, basket.sensitive
    every = (*groups, sensitive)
    listed = [item for group in every for item in group]
    if len(set(listed)) != len(listed) or any(item in ("", _NOTHING) or separator in item for item in listed):
        raise ItemsError(f"{where} lists an item twice, or one that cannot be an item")
    names = [f"{column} {number}" for number in range(1, len(groups) + 1)]
    secret = f"{column} sensitive"
    if column in roles or any(roles.get(name) != "quasi" for name in names) or f"{column} {len(groups) + 1}" in roles:
        raise ItemsError(f"{where}.groups and the quasi attributes of the release do not fit")
    if (sensitive or secret in roles) and roles.get(secret) != "sensitive":
        raise ItemsError(f"{where}.sensitive has items, and {secret!r} is not a sensitive attribute")
    if secret in roles:
        return Folded(column, separator, (*names, secret), every)
    return Folded(column, separator, tuple(names), groups)


def check_items(manifest: Manifest, rows: PublishedRows) -> Check:
    """Check that sets are made of the items of their groups, and that no item is listed that no row has."""
    try:
        folded = read_items(manifest.items, manifest.attributes)
    except ItemsError as fault:
        return Check("items", False, str(fault))
    try:
        return _check_sets(manifest, rows, folded)
    except FAULTS as fault:
        return Check("items", False, f"the rows cannot be read ({type(fault).__name__})")


def _check_sets(manifest: Manifest, rows: PublishedRows, folded: Sequence[Folded]) -> Check:
    boxed = {attribute.name for attribute in manifest.attributes if attribute.boxed}
    for one in folded:
        for g, name in enumerate(one.names):
            if name in boxed:
                continue  # labels are checked against their covers
            texts = _texts(rows, name)
            mine = one.unfold(texts)
            if not mine[g].equals(texts) or any(not _empty(mine[other]) for other in range(len(mine)) if other != g):
                return Check("items", False, f"sets of {name} are not made of items of their group, in order")
            used = {item for text in texts.to_pylist() for item in text.split(one.separator)} - {_NOTHING}
            if not used <= set(one.groups[g]):
                return Check("items", False, f"{name} has {len(used - set(one.groups[g]))} items that are not listed")
            if len(used) < len(one.groups[g]):
                return Check("items", False, f"the manifest lists items of {name} that no row has")
    return Check("items", True, "sets are made of listed items, and every listed item occurs")


def _texts(rows: PublishedRows, name: str) -> pa.Array:
    """Return the different sets of a column but the empty one, which is written in a way of its own."""
    met: set[str] = set()
    for batch in rows.batches([name]):
        values, places = coded(batch.column(0))
        used = np.unique(places)
        met.update(values.take(pa.array(used[used < len(values)])).cast(pa.string()).to_pylist())
    return pa.array(sorted(met - {_NOTHING}), pa.string())


def _empty(texts: pa.Array) -> bool:
    return bool(pc.all(pc.equal(texts, _NOTHING), min_count=0).as_py())
