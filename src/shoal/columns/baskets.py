"""Set-valued data: baskets of items become a few attributes that slicing can publish (``docs/transactions.md``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.documents import Parameters
from shoal.core.errors import InputError, PolicyError, UsageError
from shoal.core.kernels import find_starts, pam
from shoal.core.wording import count_noun
from shoal.sources.base import DerivedSource, Source, SourceOptions
from shoal.sources.columns import UNCHANGED, is_text
from shoal.sources.opening import open_source
from shoal.taxonomies.tree import Taxonomy

NONE = "none"  # the published value of an empty set


class ItemOptions(Parameters):
    """A column of baskets: texts of items with a separator between them.

    >>> ItemOptions(columns=2, sensitive=["test"]).names("basket")
    ('basket 1', 'basket 2', 'basket sensitive')
    """

    separator: str = Field(
        default=";", min_length=1, description="text between two items; blanks around items are ignored"
    )
    columns: int = Field(default=4, ge=1, description="groups of associated items; each becomes an attribute")
    sensitive: tuple[str, ...] = Field(default=(), description="items whose owners must not be disclosed")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if any(character in self.separator for character in "\r\n\0"):
            raise ValueError("separator must not contain line ends")
        for item in self.sensitive:
            if not item or item != item.strip() or self.separator in item:
                raise ValueError(
                    f"sensitive: {item!r} is not an item: it is empty, has blanks around it or the separator in it"
                )
        if len(set(self.sensitive)) < len(self.sensitive):
            raise ValueError("sensitive: an item is listed twice")
        return self

    def quasi_names(self, name: str) -> tuple[str, ...]:
        return tuple(f"{name} {number}" for number in range(1, self.columns + 1))

    def sensitive_names(self, name: str) -> tuple[str, ...]:
        return (f"{name} sensitive",) if self.sensitive else ()

    def names(self, name: str) -> tuple[str, ...]:
        return (*self.quasi_names(name), *self.sensitive_names(name))


class Baskets(NamedTuple):
    """The distinct items of some texts: text ``text[i]`` has the item ``names[item[i]]``.

    Pairs ascend by text, then by item; the names are sorted.
    """

    text: IntArray  # (n_pairs,)
    item: IntArray  # (n_pairs,)
    names: pa.Array  # (n_items,)


def split_items(texts: pa.Array, separator: str) -> Baskets:
    """Split texts into items, without surrounding blanks and empty items.

    >>> found = split_items(pa.array(["milk; bread", "", "milk;milk;"]), ";")
    >>> found.text.tolist(), found.item.tolist(), found.names.to_pylist()
    ([0, 0, 2], [0, 1, 1], ['bread', 'milk'])
    """
    lists = pc.split_pattern(texts, pattern=separator)
    coded = pc.utf8_trim_whitespace(pc.list_flatten(lists)).dictionary_encode()
    text = np.asarray(pc.list_parent_indices(lists), dtype=np.int64)
    rank = np.asarray(pc.rank(coded.dictionary), dtype=np.int64) - 1
    item, names = rank[np.asarray(coded.indices)], coded.dictionary.sort()
    if len(names) and names[0].as_py() == "":  # the empty text sorts first
        text, item, names = text[item > 0], item[item > 0] - 1, names[1:]
    text, item = distinct_pairs(text, item, len(names))
    return Baskets(text, item, names)


def distinct_pairs(owner: IntArray, item: IntArray, n_items: int) -> tuple[IntArray, IntArray]:
    """Return the distinct pairs, ascending by owner, then by item.

    >>> owner, item = distinct_pairs(np.array([1, 0, 1]), np.array([2, 1, 2]), 3)
    >>> owner.tolist(), item.tolist()
    ([0, 1], [1, 2])
    """
    width = max(n_items, 1)
    pair = np.sort(owner * width + item)  # sorting is much faster than np.unique, which hashes
    pair = pair[find_starts([pair])]
    return pair // width, pair % width


def join_items(baskets: Baskets, chosen: BoolArray, n_texts: int, separator: str) -> pa.Array:
    """Join the chosen items of each text and return (n_texts,) texts, ``none`` for those without items.

    >>> found = split_items(pa.array(["milk; bread", "tea"]), ";")
    >>> join_items(found, found.item < 2, 2, ";").to_pylist()
    ['bread;milk', 'none']
    """
    sizes = np.bincount(baskets.text[chosen], minlength=n_texts)
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(edges), baskets.names.take(pa.array(baskets.item[chosen])))
    return pc.if_else(pa.array(sizes == 0), NONE, pc.binary_join(lists, separator))


FREQUENT = 300  # the largest number of items that are clustered; others join the clusters
RARE = 100  # associations of an item that fewer than 1 in 100 baskets have are mostly random


def item_counts(source: Source, name: str, separator: str) -> tuple[Counter[str], int]:
    """Return the number of baskets with each item, and the number of baskets."""
    counts: Counter[str] = Counter()
    n_baskets = 0
    for baskets, people in _batches(source, name, separator):
        records = np.bincount(baskets.item, weights=people[baskets.text], minlength=len(baskets.names))
        counts.update(dict(zip(baskets.names.to_pylist(), records.astype(np.int64).tolist(), strict=True)))
        n_baskets += int(people.sum())
    return +counts, n_baskets  # dictionaries of batches may have unused entries


def item_groups(
    source: Source, name: str, separator: str, counts: Counter[str], n_baskets: int, n_groups: int
) -> tuple[tuple[str, ...], ...]:
    """Return the items of *counts* in groups of associated items, sorted by name in each group.

    The most frequent items are clustered by PAM with the distance 1 - phi^2, where phi^2 is 0 for items that are
    together less often than by chance. Every other item joins the group of the frequent item with which it has the
    largest phi^2. Groups are ordered by their most frequent items.
    """
    from scipy import sparse

    items = sorted(counts, key=lambda item: (-counts[item], item))
    records = np.array([counts[item] for item in items], dtype=np.int64)
    n_frequent = max(n_groups, min(FREQUENT, int((records * RARE >= n_baskets).sum())))
    together = np.zeros((len(items), n_frequent), dtype=np.int64)
    for baskets, people in _batches(source, name, separator):
        rank = pc.index_in(baskets.names, value_set=pa.array(items, pa.string())).fill_null(-1)
        place = np.asarray(rank, dtype=np.int64)[baskets.item]  # (n_pairs,) -1: not among *counts*
        text, item = baskets.text[place >= 0], place[place >= 0]
        shape = (len(people), len(items))
        has = sparse.csr_array((np.ones(len(text), dtype=np.int64), (text, item)), shape)
        records_with = sparse.csr_array((people[text], (text, item)), shape)  # by text
        together += (has.T @ records_with[:, :n_frequent]).toarray()
    association = going_together(together, records, n_baskets)
    distances = 1.0 - association[:n_frequent]
    np.fill_diagonal(distances, 0.0)
    label = np.empty(len(items), dtype=np.int64)
    label[:n_frequent] = pam(distances, n_groups).labels
    label[n_frequent:] = label[association[n_frequent:].argmax(axis=1)]
    found = [np.flatnonzero(label == group).tolist() for group in dict.fromkeys(label.tolist())]
    return tuple(tuple(sorted(items[place] for place in places)) for places in found)


def going_together(together: IntArray, records: IntArray, n_baskets: int) -> FloatArray:
    """Return (n_items, n_frequent) phi^2 for items that occur together more often than by chance, otherwise 0.

    >>> going_together(np.array([[2, 0, 1], [0, 2, 1], [1, 1, 2]]), np.array([2, 2, 2]), 4)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    have = records.astype(np.float64)
    spread = have * (n_baskets - have)
    frequent = have[: together.shape[1]]
    surplus: FloatArray = np.maximum(n_baskets * together - have[:, np.newaxis] * frequent, 0.0)
    bottom = spread[:, np.newaxis] * spread[: together.shape[1]]
    return np.asarray(np.divide(surplus**2, bottom, out=np.zeros_like(bottom), where=bottom > 0), dtype=np.float64)


def _batches(source: Source, name: str, separator: str) -> Iterator[tuple[Baskets, IntArray]]:
    """Yield the items of the distinct texts of each batch, and the number of records with each text."""
    for batch in source.batches([name], dictionary=[name]):
        column = batch.column(0)
        codes = np.asarray(column.indices.drop_null())
        yield split_items(column.dictionary, separator), np.bincount(codes, minlength=len(column.dictionary))


@dataclass(frozen=True, slots=True, eq=False)
class Unfolding:
    """Splits the texts of one column into several columns by groups of items; the sensitive group is last.

    >>> basket = Unfolding("basket", ";", ("basket 1", "basket 2"), (("bread", "milk"), ("test",)))
    >>> [column.to_pylist() for column in basket.unfold(pa.array(["milk;test", "milk; bread"]))]
    [['milk', 'bread;milk'], ['test', 'none']]
    """

    column: str
    separator: str
    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]  # (n_names,) the items of each

    def unfold(self, texts: pa.Array) -> list[pa.Array]:
        """Return, for each group, the texts with only its items."""
        baskets = split_items(texts, self.separator)
        place = pc.index_in(baskets.names, value_set=pa.array([item for group in self.groups for item in group]))
        if place.null_count:
            raise InputError(f"column {self.column!r} changed while it was being read; nothing was published")
        owner = np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])
        group = owner[np.asarray(place, dtype=np.int64)][baskets.item]  # (n_pairs,)
        return [join_items(baskets, group == g, len(texts), self.separator) for g in range(len(self.groups))]


@dataclass(frozen=True, slots=True, eq=False)
class UnfoldedSource(DerivedSource):
    """The rows of another source, whose baskets are replaced by attributes."""

    unfoldings: tuple[Unfolding, ...]

    @classmethod
    def of(cls, source: Source, unfoldings: Sequence[Unfolding]) -> UnfoldedSource:
        """Wrap a source in which texts that mean missing are already null."""
        by_column = {unfolding.column: unfolding for unfolding in unfoldings}
        fields = []
        for field in source.schema:
            names = by_column[field.name].names if field.name in by_column else ()
            fields += [pa.field(name, pa.string()) for name in names] or [field]
        return cls(source.name, pa.schema(fields), source.n_rows, UNCHANGED, source, tuple(unfoldings))

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        wanted = [one for one in self.unfoldings if not set(columns).isdisjoint(one.names)]
        baskets = [one.column for one in wanted]
        plain = [name for name in columns if not any(name in one.names for one in wanted)]
        dictionary = [*baskets, *(name for name in plain if name in coded)]
        for batch in self.given.batches([*plain, *baskets], dictionary=dictionary):
            arrays = dict(zip(plain, batch.columns[: len(plain)], strict=True))
            for one in wanted:
                texts = batch.column(one.column)
                unfolded = one.unfold(texts.dictionary)
                for name, values in zip(one.names, unfolded, strict=True):
                    arrays[name] = pa.DictionaryArray.from_arrays(texts.indices, values)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=columns)


def unfold_column(source: Source, name: str, options: ItemOptions, tokens: frozenset[str]) -> Unfolding:
    """Group the items of a column; *tokens* are the texts that mean missing."""
    where = f"column {name!r} of {source.name}"
    kind = source.schema.field(name).type
    if not is_text(kind):
        raise InputError(f"{where} holds {kind}; items are text with {options.separator!r} between them")
    counts, n_baskets = item_counts(source, name, options.separator)
    reserved = [item for item in counts if item == NONE or item in tokens]
    if reserved:
        raise InputError(
            f"{where} has {len(reserved)} items that are {NONE!r}, the value published for empty sets, or texts that "
            "mean missing; rename or remove these items"
        )
    absent = [item for item in options.sensitive if item not in counts]
    if absent:
        raise PolicyError(
            f"{where}: no record has {len(absent)} of the {len(options.sensitive)} sensitive items "
            f"({', '.join(map(repr, absent[:5]))}{', ...' if len(absent) > 5 else ''}); a misspelled one would be "
            "published as an ordinary item: correct it or remove it from the list"
        )
    ordinary = Counter({item: number for item, number in counts.items() if item not in options.sensitive})
    if len(ordinary) < options.columns:
        raise PolicyError(
            f"{where} has {len(ordinary)} items that are not sensitive, too few for {options.columns} columns; "
            "ask for fewer columns"
        )
    groups = item_groups(source, name, options.separator, ordinary, n_baskets, options.columns)
    if options.sensitive:
        groups = (*groups, tuple(sorted(options.sensitive)))
    return Unfolding(name, options.separator, options.names(name), groups)


def describe_items(
    source: Source, taxonomies: Mapping[str, Taxonomy], n_quasi: int, published: Callable[[int], IntArray]
) -> Mapping[str, Any]:
    """Return the manifest's entries on baskets, which name only items of published records.

    *taxonomies* are the attributes' taxonomies by name, beginning with the *n_quasi* quasi attributes. *published* maps
    an attribute to the leaves that published records have.
    """
    if not isinstance(source, UnfoldedSource):
        return {}
    places = {name: place for place, name in enumerate(taxonomies)}
    entries: dict[str, object] = {}
    for unfolding in source.unfoldings:
        shown = []
        for name, group in zip(unfolding.names, unfolding.groups, strict=True):
            labels = taxonomies[name].leaf_labels
            texts = pa.array([labels[leaf] for leaf in published(places[name]).tolist()], pa.string())
            found = set(split_items(texts, unfolding.separator).names.to_pylist())
            shown.append([item for item in group if item in found])
        n_groups = sum(places[name] < n_quasi for name in unfolding.names)
        sensitive = [item for group in shown[n_groups:] for item in group]
        entries[unfolding.column] = {
            "separator": unfolding.separator,
            "groups": shown[:n_groups],
            "sensitive": sensitive,
        }
    return entries


def baskets(
    data: object, person: str, item: str, *, separator: str = ";", options: SourceOptions | None = None
) -> pa.Table:
    """Convert a long table, with one row per person and item, into baskets, with one row per person.

    The result has the column *person*, in ascending order, and the column *item* with the person's distinct items,
    sorted and joined by the separator.

    Parameters
    ----------
    data
        Any source that shoal can read.
    person, item
        The columns of persons and items. Missing items are ignored, but their persons are kept.
    separator
        Text between two items.
    options
        Options for reading *data*.

    Raises
    ------
    InputError
        If a row has no person, or an item contains the separator.

    Examples
    --------

    >>> bought = pa.table({"customer": [2, 1, 2, 2], "product": ["tea", "milk", "bread", "tea"]})
    >>> baskets(bought, "customer", "product").to_pylist()
    [{'customer': 1, 'product': 'milk'}, {'customer': 2, 'product': 'bread;tea'}]
    """
    if not separator or person == item:
        raise UsageError("baskets needs a separator, and different columns for persons and items")
    source = open_source(data, options)
    table = pa.Table.from_batches(list(source.batches([person, item])))
    who, what = (table.column(name).combine_chunks().dictionary_encode() for name in (person, item))
    if who.null_count:
        raise InputError(
            f"{source.name} has {count_noun(who.null_count, 'row')} without a {person!r}; give every row one"
        )
    names = pc.utf8_trim_whitespace(what.dictionary.cast(pa.string()))
    if pc.any(pc.match_substring(names, separator)).as_py():
        raise InputError(f"items of {item!r} in {source.name} contain {separator!r}; choose another separator")
    rank = np.asarray(pc.rank(who.dictionary), dtype=np.int64) - 1
    named = names.unique().sort()
    place = np.asarray(pc.index_in(names, value_set=named), dtype=np.int64)
    there = np.asarray(what.is_valid())
    owner = rank[np.asarray(who.indices)[there]]
    which = place[np.asarray(what.indices.drop_null())]
    full = np.asarray(pc.not_equal(named, ""))[which]
    owner, which = distinct_pairs(owner[full], which[full], len(named))  # items in the order of their names
    edges = np.searchsorted(owner, np.arange(len(rank) + 1)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(edges), named.take(pa.array(which)))
    return pa.table({person: who.dictionary.sort(), item: pc.binary_join(lists, separator)})
