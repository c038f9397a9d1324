"""Baskets of the source as the release has them: sets of items in groups, unfolded by what the manifest says.

Written for this purpose alone: the verifier shares no code with what unfolded the source for publishing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.errors import InputError
from shoal.manifest import Attribute, Basket, ManifestError, read_entry
from shoal.verify.manifest import Manifest
from shoal.verify.reading import FAULTS, PublishedRows, report_unreadable
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
        trimmed = pa.ListArray.from_arrays(lists.offsets, pc.utf8_trim_whitespace(lists.values))
        group_of = {name: group for group, names in enumerate(self.groups) for name in names}
        columns: list[list[str]] = [[] for _ in self.groups]
        for items in trimmed.to_pylist():
            said: list[list[str]] = [[] for _ in self.groups]
            for item in sorted(set(items) - {""}):
                said[group_of.get(item, 0)].append(item)
            for column, own in zip(columns, said, strict=True):
                column.append(self.separator.join(own) or _NOTHING)
        return [pa.array(column, pa.string()) for column in columns]


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
    folded = read_items(manifest.written.items, manifest.attributes)
    for one in folded:
        if one.column not in source.schema.names:
            raise InputError(f"{source.name} lacks the column {one.column!r}, which the release was unfolded from")
        if not pa.types.is_string(source.schema.field(one.column).type):
            raise InputError(f"column {one.column!r} of {source.name} is not text, as items are")
    return UnfoldedRows(source, folded) if folded else source


def read_items(raw: Mapping[str, Any], attributes: Sequence[Attribute]) -> tuple[Folded, ...]:
    """Return the manifest's entries on baskets, or raise a ManifestError that says what is wrong with them."""
    roles = {attribute.name: attribute.role for attribute in attributes}
    return tuple(_read_basket(column, entry, roles) for column, entry in raw.items())


def _read_basket(column: str, entry: Any, roles: Mapping[str, str]) -> Folded:
    where = f"items.{column}"
    basket = read_entry(Basket, entry, where)
    separator, groups, sensitive = basket.separator, basket.groups, basket.sensitive
    every = (*groups, sensitive)
    listed = [item for group in every for item in group]
    if len(set(listed)) != len(listed) or any(item in ("", _NOTHING) or separator in item for item in listed):
        raise ManifestError(f"{where} lists an item twice, or one that cannot be an item")
    names = [f"{column} {number}" for number in range(1, len(groups) + 1)]
    secret = f"{column} sensitive"
    if column in roles or any(roles.get(name) != "quasi" for name in names) or f"{column} {len(groups) + 1}" in roles:
        raise ManifestError(f"{where}.groups and the quasi attributes of the release do not fit")
    if (sensitive or secret in roles) and roles.get(secret) != "sensitive":
        raise ManifestError(f"{where}.sensitive has items, and {secret!r} is not a sensitive attribute")
    if secret in roles:
        return Folded(column, separator, (*names, secret), every)
    return Folded(column, separator, tuple(names), groups)


def check_items(manifest: Manifest, rows: PublishedRows) -> Check:
    """Check that sets are made of the items of their groups, and that no item is listed that no row has."""
    labelled = {attribute.name for attribute in manifest.labelled}  # labels are checked against their covers
    try:
        for one in read_items(manifest.written.items, manifest.attributes):
            for place, name in enumerate(one.names):
                if name not in labelled and (fault := _find_fault(one, place, name, rows)):
                    return Check("items", False, fault)
    except ManifestError as fault:
        return Check("items", False, str(fault))
    except FAULTS as fault:
        return Check("items", False, report_unreadable(fault).detail)
    return Check("items", True, "sets are made of listed items, and every listed item occurs")


def _find_fault(one: Folded, place: int, name: str, rows: PublishedRows) -> str | None:
    """Say what is wrong with the sets of a column; the empty one is written in a way of its own."""
    met: set[str] = set()
    for batch in rows.batches([name]):
        met.update(batch.column(0).unique().drop_null().cast(pa.string()).to_pylist())
    texts = sorted(met - {_NOTHING})
    mine = [column.to_pylist() for column in one.unfold(pa.array(texts, pa.string()))]
    if mine.pop(place) != texts or any(other != _NOTHING for column in mine for other in column):
        return f"sets of {name} are not made of items of their group, in order"
    used = {item for text in texts for item in text.split(one.separator)} - {_NOTHING}
    listed = set(one.groups[place])
    if not used <= listed:
        return f"{name} has {len(used - listed)} items that are not listed"
    return f"the manifest lists items of {name} that no row has" if len(used) < len(listed) else None
