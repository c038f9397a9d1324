"""A column of baskets as a few attributes: what a person has of each group of items, and of the sensitive ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.columns.baskets.grouping import item_counts, item_groups, without
from shoal.columns.baskets.options import NONE, ItemOptions
from shoal.columns.baskets.splitting import joined_items, split_items
from shoal.core.arrays import IntArray
from shoal.core.errors import InputError, PolicyError
from shoal.plan.problem import Attribute
from shoal.policy.policy import AttributePolicy, Policy
from shoal.sources.base import DerivedSource, Source
from shoal.sources.columns import is_text
from shoal.taxonomies.builders.flat import FlatTaxonomy


@dataclass(frozen=True, slots=True, eq=False)
class Unfolding:
    """How the texts of one column become those of several: items by items' groups, the sensitive ones last.

    >>> basket = Unfolding("basket", ";", ("basket 1", "basket 2"), (("bread", "milk"), ("test",)))
    >>> [column.to_pylist() for column in basket.unfold(pa.array(["milk;test", "milk; bread"]))]
    [['milk', 'bread;milk'], ['test', 'none']]
    """

    column: str
    separator: str
    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]  # (n_names,) the items of each

    def unfold(self, texts: pa.Array) -> list[pa.Array]:
        """Return what each text has of each group."""
        baskets = split_items(texts, self.separator)
        place = pc.index_in(baskets.names, value_set=pa.array([item for group in self.groups for item in group]))
        if place.null_count:
            raise InputError(f"column {self.column!r} changed while it was being read; nothing was published")
        owner = np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])
        group = owner[np.asarray(place, dtype=np.int64)][baskets.item]  # (n_pairs,)
        return [joined_items(baskets, group == g, len(texts), self.separator) for g in range(len(self.groups))]


@dataclass(frozen=True, slots=True, eq=False)
class UnfoldedSource(DerivedSource):
    """The rows of another source, with the attributes of baskets in place of the baskets."""

    unfoldings: tuple[Unfolding, ...]

    @classmethod
    def of(cls, source: Source, unfoldings: Sequence[Unfolding]) -> UnfoldedSource:
        """Wrap a source, which has already turned texts that mean missing into nulls."""
        by_column = {unfolding.column: unfolding for unfolding in unfoldings}
        fields = []
        for field in source.schema:
            names = by_column[field.name].names if field.name in by_column else ()
            fields += [pa.field(name, pa.string()) for name in names] or [field]
        return cls(source.name, pa.schema(fields), source.n_rows, (), source, tuple(unfoldings))

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


def unfolded(policy: Policy, source: Source) -> tuple[Policy, Source]:
    """Return policy and source with attributes in place of every column that has ``items``; else both as they are."""
    options = {name: attribute.items for name, attribute in policy.attributes.items() if attribute.items is not None}
    if not options:
        return policy, source
    tokens = frozenset(token.strip() for token in policy.source.missing)
    unfoldings = [_unfolding(source, name, wanted, tokens) for name, wanted in options.items()]
    attributes: dict[str, AttributePolicy] = {}
    for name, attribute in policy.attributes.items():
        if attribute.items is None:
            attributes[name] = attribute
            continue
        plain = replace(attribute, items=None, taxonomy=FlatTaxonomy())
        for number, derived in enumerate(attribute.items.quasi_names(name), start=1):
            attributes[derived] = replace(plain, description=_described(attribute, f"items of group {number}"))
        for derived in attribute.items.sensitive_names(name):
            said = _described(attribute, "sensitive items")
            attributes[derived] = replace(plain, role="sensitive", description=said)
    return replace(policy, attributes=attributes), UnfoldedSource.of(source, unfoldings)


def _described(attribute: AttributePolicy, what: str) -> str:
    separator = "" if attribute.items is None else attribute.items.separator
    said = f"{what}, with {separator!r} between them; {NONE} if there are none"
    return said if attribute.description is None else f"{attribute.description}: {said}"


def _unfolding(source: Source, name: str, options: ItemOptions, tokens: frozenset[str]) -> Unfolding:
    where = f"column {name!r} of {source.name}"
    kind = source.schema.field(name).type
    if not is_text(kind):
        raise InputError(f"{where} holds {kind}; items are text with {options.separator!r} between them")
    counts, n_baskets = item_counts(source, name, options.separator)
    reserved = [item for item in counts if item == NONE or item in tokens]
    if reserved:
        raise InputError(
            f"{where} has {len(reserved)} items that are {NONE!r}, as empty sets are published, or texts that mean "
            "missing; rename these items or leave them out"
        )
    absent = [item for item in options.sensitive if item not in counts]
    if absent:
        raise PolicyError(
            f"{where}: no record has {len(absent)} of the {len(options.sensitive)} sensitive items "
            f"({', '.join(map(repr, absent[:5]))}{', ...' if len(absent) > 5 else ''}); a misspelled one would be "
            "published as an ordinary item: correct it or take it off the list"
        )
    ordinary = without(counts, options.sensitive)
    if len(ordinary) < options.columns:
        raise PolicyError(
            f"{where} has {len(ordinary)} items that are not sensitive, too few for {options.columns} columns; "
            "ask for fewer columns"
        )
    groups = item_groups(source, name, options.separator, ordinary, n_baskets, options.columns)
    if options.sensitive:
        groups = (*groups, tuple(sorted(options.sensitive)))
    return Unfolding(name, options.separator, options.names(name), groups)


def items_entry(
    source: Source, attributes: Sequence[Attribute], n_quasi: int, published: Callable[[int], IntArray]
) -> Mapping[str, Any]:
    """Return what the manifest says of baskets: empty if there are none.

    *published* tells the leaves of an attribute that published records have; the first *n_quasi* are quasi ones.

    Only items of published records are named; what the others had stays unknown.
    """
    if not isinstance(source, UnfoldedSource):
        return {}
    places = {attribute.name: place for place, attribute in enumerate(attributes)}
    entries: dict[str, Any] = {}
    for unfolding in source.unfoldings:
        shown = []
        for name, group in zip(unfolding.names, unfolding.groups, strict=True):
            labels = attributes[places[name]].taxonomy.leaf_labels
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
