"""Reading the input of linking: releases of shoal, and tables of others with a policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from shoal.core.errors import InputError, ShoalError, UsageError
from shoal.linking import linkable
from shoal.manifest import Basket, Manifest, read_entry
from shoal.policy.policy import Policy
from shoal.release.covers import Cover, LabelColumn, cover_itself
from shoal.release.forms.base import read_form
from shoal.release.published import PublishedRelease, encode_column, read_columns
from shoal.release.release import CLASS, Release
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.listed import MaskTaxonomy
from shoal.taxonomies.tree import Taxonomy

SUPPRESSED = "*"
Linked: TypeAlias = "Release | str | Path"


@dataclass(frozen=True, slots=True, eq=False)
class ForeignTable:
    """A table that others published, with the roles that a policy gives its columns."""

    name: str
    source: Source
    policy: Policy

    def names(self, *roles: str) -> list[str]:
        known = self.source.schema.names
        return [name for name, one in self.policy.attributes.items() if one.role in roles and name in known]


Opened: TypeAlias = PublishedRelease | ForeignTable


def _names(opened: Opened, *roles: str) -> list[str]:
    return (opened if isinstance(opened, ForeignTable) else opened.manifest).names(*roles)


def read_linkables(
    releases: Sequence[Linked],
    *,
    policy: Policy | None = None,
    sensitive: str | None = None,
    known: Callable[[Collection[str]], Collection[str]] = lambda quasi: quasi,
) -> tuple[list[linkable.Linkable], str]:
    """Read releases to be linked, and return their common sensitive attribute.

    An adversary is assumed to know an attribute that is quasi in any of the releases, so other releases that publish it
    as insensitive are searched by it as well. *known* may select quasi attributes: the others are not read, because
    combinations of a bucket that differ only in them are one. If *sensitive* is empty, classes are read without values.
    """
    opened = [_open(release, policy) for release in releases]
    chosen = ""
    if sensitive != "":
        chosen = linkable.choose_sensitive([_names(each, "sensitive") for each in opened], sensitive)
    quasi = dict.fromkeys(name for each in opened for name in _names(each, "quasi") if name != chosen)
    if not quasi:
        raise UsageError("the releases have no quasi attribute, so people cannot be looked up in them")
    names = set(known(quasi))
    ours = [each for each in opened if isinstance(each, PublishedRelease)]
    for each in ours:
        if reason := explain_unlinkable(each.manifest, {*names, chosen}):
            raise InputError(f"{each.name} cannot be linked: {reason}")
    for one, other in combinations(ours, 2):
        for reason in find_common_tokens(one.manifest, other.manifest).values():
            raise InputError(f"{one.name} and {other.name} have {reason}")
    _refuse_unlike_baskets(ours, {*names, chosen})
    with ThreadPoolExecutor(2) as threads:  # no more, because each holds its rows in memory
        read = list(threads.map(lambda each: _read(each, names, chosen), opened))
    whole = [names >= {*_names(each, "quasi")} - {chosen} for each in opened]
    return [replace(each, resolved=known) for each, known in zip(read, whole, strict=True)], chosen


def _refuse_unlike_baskets(releases: Sequence[PublishedRelease], names: set[str]) -> None:
    """Raise if a used attribute has different items of a basket in two releases."""
    meaning: dict[str, object] = {}
    for each in releases:
        for basket, entry in each.manifest.items.items():
            stated = read_entry(Basket, entry, f"{each.name}: items.{basket}")
            for part, items in [*enumerate(stated.groups, start=1), ("sensitive", stated.sensitive)]:
                made, name = (stated.separator, sorted(items)), f"{basket} {part}"
                if name in names and meaning.setdefault(name, made) != made:
                    raise InputError(
                        f"{name!r} has different items of {basket!r} in two releases, so they cannot be compared; link "
                        "them with a target or a population that does not have it"
                    )


def _open(release: Linked, policy: Policy | None) -> Opened:
    if not isinstance(release, str | Path):
        return PublishedRelease.open(release)
    folder = Path(release)
    if not folder.exists():
        raise InputError(f"there is no release or table {release}")
    found = PublishedRelease.find(folder)
    if found is not None:
        return found
    if policy is None:
        lacks = "it has no manifest.json" if folder.is_dir() else "it is a single file"
        raise UsageError(f"{release} is not a release of shoal: {lacks}; give the roles of its columns with --policy")
    return ForeignTable(str(release), open_source(folder, policy.source), policy)


def _read(opened: Opened, known: set[str], sensitive: str) -> linkable.Linkable:
    wanted = [name for name in _names(opened, "quasi", "insensitive") if name in known]
    if isinstance(opened, ForeignTable):
        return read_foreign(opened, wanted, sensitive)
    form, name, manifest = opened.form, opened.name, opened.manifest
    if not form.whole_records:
        return linkable.read_slices(name, opened.slice_rows(), manifest, wanted, sensitive)
    if form.by_plan:
        agreed = opened.read_plan()
        own = sensitive or agreed.sensitive
        table = read_columns(opened.source, [CLASS, *wanted, own])
        return linkable.read_agreed_classes(name, table, manifest, agreed, wanted, own)
    columns = [*wanted, sensitive] if sensitive else wanted
    return linkable.read_generalized(name, read_columns(opened.source, columns), manifest, wanted, sensitive)


def read_foreign(given: ForeignTable, quasi: Sequence[str], sensitive: str) -> linkable.Linkable:
    """Return a table of others, in which every row is a record.

    A text that is a node of the attribute's declared taxonomy covers the node's values, ``*`` covers all values, a
    masked text covers all values with its prefix; any other text is a value.
    """
    table, attributes = read_columns(given.source, [*quasi, sensitive]), given.policy.attributes
    columns = []
    for attribute in quasi:
        codes, texts = encode_column(table.column(attribute))
        columns.append((_column(attribute, texts, attributes[attribute].taxonomy), codes))
    codes, texts = encode_column(table.column(sensitive))
    tree = _build_tree(attributes[sensitive].taxonomy)
    labels = None
    if tree is not None:
        nodes = _nodes(tree)
        everything: Cover = {"values": list(tree.leaf_labels)}
        covers = {text: nodes.get(text, cover_itself(text)) for text in texts if text is not None}
        labels = {text: everything if cover.get("any") else cover for text, cover in covers.items()}
    return linkable.read_rows(given.name, columns, codes, linkable.Candidates.of(texts, labels, given.name))


def _column(name: str, texts: Sequence[str | None], builder: TaxonomyBuilder | None) -> LabelColumn:
    tree = _build_tree(builder)
    nodes = {} if tree is None else _nodes(tree)
    covers = [_cover(text, nodes, builder) for text in texts]
    prefixes = any("prefixes" in cover for cover in covers)
    kind = "prefix" if prefixes else "category" if tree is None else tree.scale.kind
    reading = {} if tree is None else tree.scale.reading()
    return LabelColumn(name, kind, tuple(texts), tuple(covers), reading.get("format"), reading.get("length"))


def _cover(text: str | None, nodes: dict[str, Cover], builder: TaxonomyBuilder | None) -> Cover:
    if text is None:
        return cover_itself(text)
    if text in nodes:
        return nodes[text]
    if text == SUPPRESSED:
        return {"any": True}
    if isinstance(builder, MaskTaxonomy) and text.endswith(builder.character):
        start = text.rstrip(builder.character)
        return {"prefixes": [start]} if start else {"any": True}
    return cover_itself(text)


def _build_tree(builder: TaxonomyBuilder | None) -> Taxonomy | None:
    """Return the tree that a policy declares; None if it depends on the values of the table."""
    if builder is None or isinstance(builder, MaskTaxonomy):
        return None
    try:
        tree = builder.build(pa.array([], pa.string()))
    except (ShoalError, ValueError):  # a tree that depends on values
        return None
    return tree if tree.declared else None


def _nodes(tree: Taxonomy) -> dict[str, Cover]:
    ranges = zip(tree.labels, tree.lo.tolist(), tree.hi.tolist(), strict=True)
    return {label: tree.cover(low, high) for label, low, high in ranges}


def explain_unlinkable(manifest: Manifest, names: Collection[str]) -> str | None:
    """Return why a release cannot be linked by these attributes; None if it can."""
    reason = read_form(manifest).unlinkable
    return reason if reason is not None else next(iter(explain_changes(manifest, names).values()), None)


def explain_changes(manifest: Manifest, names: Collection[str]) -> dict[str, str]:
    """Return which of these columns were changed by a technique, and why they cannot be compared."""
    return {
        name: f"its column {name!r} was changed by {entry['technique']}, and linking compares original values"
        for name, entry in manifest.techniques.items()
        if name in names
    }


def find_common_tokens(one: Manifest, other: Manifest) -> dict[str, str]:
    """Return the columns of the other release whose tokens one release has as well, and the disclosure in words.

    A manifest does not identify the key, so pseudonyms of the same domain are assumed to have the same key.
    """
    known = list(_lasting(one))
    return {
        column: f"tokens that are the same for the same value (columns {own!r} and {column!r}): anyone who has both "
        "releases joins a person's rows, and no class hides them"
        for column, tokens in _lasting(other)
        for own, same in known
        if same == tokens
    }


def _lasting(manifest: Manifest) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the columns of tokens that may recur in other releases, and the properties that make them equal."""
    for name, entry in manifest.techniques.items():
        if entry["technique"] == "pseudonym":
            yield name, ("pseudonym", str(entry.get("domain")))
        elif entry["technique"] == "hash" and entry.get("salt") != "random":
            yield name, ("hash", "")
