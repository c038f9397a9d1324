"""Reading what is to be linked: releases of shoal, and tables of others with a policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from shoal.core.errors import InputError, ShoalError, UsageError
from shoal.linking import linkable
from shoal.policy.policy import Policy
from shoal.release.forms.base import read_form
from shoal.release.release import CLASS, PUBLIC, Release, find_release
from shoal.sources.base import SourceOptions
from shoal.sources.frames import as_table
from shoal.sources.opening import open_source
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.listed import MaskTaxonomy
from shoal.taxonomies.tree import Taxonomy
from shoal.verify.covers import Cover

SUPPRESSED = "*"
Linked: TypeAlias = "Release | str | Path"


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A release or a table, of which only the roles of its attributes are known yet."""

    name: str
    roles: Mapping[str, str]
    manifest: Mapping[str, Any] | None  # None for tables of others
    data: Any
    folder: Path | None = None  # where the public files are

    def of_role(self, role: str) -> list[str]:
        return [name for name, own in self.roles.items() if own == role]


def read_linkables(
    releases: Sequence[Linked],
    *,
    policy: Policy | None = None,
    sensitive: str | None = None,
    known: Callable[[Collection[str]], Collection[str]] = lambda quasi: quasi,
) -> tuple[list[linkable.Linkable], str]:
    """Read releases to be linked, and say which sensitive attribute they have in common.

    An attribute that is quasi in one release is one that an adversary knows: where another release publishes it as
    insensitive, it is used to find the person there as well. *known* may choose among the quasi attributes: those that
    nobody asks about must not be read, since combinations of a bucket that differ only there are one. If *sensitive* is
    empty, classes are read without values.
    """
    opened = [_open(release, policy) for release in releases]
    chosen = ""
    if sensitive != "":
        chosen = linkable.choose_sensitive([each.of_role("sensitive") for each in opened], sensitive)
    quasi = dict.fromkeys(name for each in opened for name in each.of_role("quasi") if name != chosen)
    if not quasi:
        raise UsageError("the releases have no quasi attribute, so nobody can be looked for in them")
    names = set(known(quasi))
    ours = [(each.name, each.manifest) for each in opened if each.manifest is not None]
    for name, manifest in ours:
        if reason := explain_unlinkable(manifest, {*names, chosen}):
            raise InputError(f"{name} cannot be linked: {reason}")
    refuse_common_tokens(ours)
    _refuse_unlike_baskets(opened, {*names, chosen})
    with ThreadPoolExecutor(2) as threads:  # each takes the memory of its rows
        read = list(threads.map(lambda each: _read(each, policy, names, chosen), opened))
    whole = [names >= {*each.of_role("quasi")} - {chosen} for each in opened]
    return [replace(each, resolved=known) for each, known in zip(read, whole, strict=True)], chosen


def _refuse_unlike_baskets(opened: Sequence[_Opened], names: set[str]) -> None:
    """Raise if an attribute that is looked at stands for other items of a basket in one release than in another."""
    meaning: dict[str, list[Any]] = {}
    for each in opened:
        for name, basket, stated in _items(each):
            if name in names and meaning.setdefault(name, stated) != stated:
                raise InputError(
                    f"{name!r} stands for other items of {basket!r} in one release than in another, so that they "
                    "cannot be compared; link them with a target or a population that does not have it"
                )


def _items(opened: _Opened) -> list[tuple[str, str, list[Any]]]:
    """Return the attributes that baskets were unfolded into, the basket of each, and what its values are made of."""
    try:
        return [
            (f"{basket} {part}", basket, [entry["separator"], sorted(items)])
            for basket, entry in (opened.manifest or {}).get("items", {}).items()
            for part, items in [*enumerate(entry["groups"], start=1), ("sensitive", entry["sensitive"])]
        ]
    except (TypeError, KeyError, AttributeError):
        raise InputError(f"{opened.name}: its manifest does not explain its items; run `shoal verify` on it") from None


def _open(release: Linked, policy: Policy | None) -> _Opened:
    if not isinstance(release, str | Path):
        found = as_table(release.data)
        data = release.data_file if found is None else found[0]
        if data is None:
            raise UsageError("a release has neither data nor a folder; keep what `shoal.anonymize` gave back")
        name, place = str(release.folder or "a release"), release.folder and release.folder / PUBLIC
        return _Opened(name, _roles(release.manifest), release.manifest, data, place)
    folder = Path(release)
    if not folder.exists():
        raise InputError(f"there is no release or table {release}")
    found_there = find_release(folder)
    if found_there is not None:
        place, manifest = found_there
        data = place / Path(str(manifest["data"]["file"])).name
        return _Opened(str(release), _roles(manifest), manifest, data, place)
    if policy is None:
        what = "folder with a manifest.json" if folder.is_dir() else "release of shoal"
        raise UsageError(f"{release} is no {what}; give the roles of its columns with --policy")
    source = open_source(folder, policy.source)
    roles = {name: policy.attributes[name].role for name in policy.attributes if name in source.schema.names}
    return _Opened(str(release), roles, None, source)


def _roles(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(entry["role"]) for name, entry in manifest["attributes"].items()}


def _read(opened: _Opened, policy: Policy | None, known: set[str], sensitive: str) -> linkable.Linkable:
    manifest, data = opened.manifest, opened.data
    if manifest is None:
        if policy is None:
            raise TypeError("a table of others is opened with a policy")
        wanted = [name for name in opened.roles if name in known and opened.roles[name] != "sensitive"]
        return read_foreign(opened.name, linkable.read_columns(data, [*wanted, sensitive]), wanted, sensitive, policy)
    form = read_form(manifest)
    if not form.whole_records:
        sliced = form.slice_rows(data if isinstance(data, pa.Table) else form.read_rows(data))
        return linkable.read_slices(opened.name, sliced, manifest, known, sensitive)
    wanted = [name for name, role in opened.roles.items() if name in known and role != "sensitive"]
    source = open_source(data, SourceOptions(delimiter=","))
    if form.by_plan:
        if opened.folder is None:
            raise UsageError(f"{opened.name} is by a plan, which is in its folder; give the folder")
        agreed = linkable.read_plan(opened.name, opened.folder, manifest)
        own = sensitive or agreed.sensitive
        return linkable.read_agreed_classes(
            opened.name, linkable.read_columns(source, [CLASS, *wanted, own]), manifest, agreed, known, own
        )
    columns = [*wanted, sensitive] if sensitive else wanted
    return linkable.read_generalized(opened.name, linkable.read_columns(source, columns), manifest, known, sensitive)


def read_foreign(name: str, table: pa.Table, quasi: Sequence[str], sensitive: str, policy: Policy) -> linkable.Linkable:
    """Return a table of others; every row is a record as it stands.

    A text that is a node of the attribute's declared taxonomy covers what the node covers, ``*`` everything, a
    masked text all that begin like it; any other text is a value as it is.
    """
    columns = []
    for attribute in quasi:
        codes, texts = linkable.encode_column(table.column(attribute))
        columns.append((_column(attribute, texts, policy.attributes[attribute].taxonomy), codes))
    codes, texts = linkable.encode_column(table.column(sensitive))
    tree = _build_tree(policy.attributes[sensitive].taxonomy)
    labels = None
    if tree is not None:
        nodes = _nodes(tree)
        everything: Cover = {"values": list(tree.leaf_labels)}
        covers = {text: nodes.get(text, linkable.cover_itself(text)) for text in texts if text is not None}
        labels = {text: everything if cover.get("any") else cover for text, cover in covers.items()}
    return linkable.read_rows(name, columns, codes, linkable.Candidates.of(texts, labels, name))


def _column(name: str, texts: Sequence[str | None], builder: TaxonomyBuilder | None) -> linkable.LinkColumn:
    tree = _build_tree(builder)
    nodes = {} if tree is None else _nodes(tree)
    covers = [_cover(text, nodes, builder) for text in texts]
    prefixes = any("prefixes" in cover for cover in covers)
    kind = "prefix" if prefixes else "category" if tree is None else tree.scale.kind
    reading = {} if tree is None else tree.scale.reading()
    labels = tuple(linkable.ABSENT if text is None else text for text in texts)
    return linkable.LinkColumn(name, kind, labels, tuple(covers), reading.get("format"), reading.get("length"))


def _cover(text: str | None, nodes: dict[str, Cover], builder: TaxonomyBuilder | None) -> Cover:
    if text is None:
        return linkable.cover_itself(text)
    if text in nodes:
        return nodes[text]
    if text == SUPPRESSED:
        return {"any": True}
    if isinstance(builder, MaskTaxonomy) and text.endswith(builder.character):
        start = text.rstrip(builder.character)
        return {"prefixes": [start]} if start else {"any": True}
    return linkable.cover_itself(text)


def _build_tree(builder: TaxonomyBuilder | None) -> Taxonomy | None:
    """Return the tree that a policy declares by itself; None if it comes from the values of the table."""
    if builder is None or isinstance(builder, MaskTaxonomy):
        return None
    try:
        tree = builder.build(pa.array([], pa.string()))
    except (ShoalError, ValueError):  # a tree that only values can make
        return None
    return tree if tree.declared else None


def _nodes(tree: Taxonomy) -> dict[str, Cover]:
    """Return what each node of the tree covers, by its label."""
    ranges = zip(tree.labels, tree.lo.tolist(), tree.hi.tolist(), strict=True)
    return {label: tree.cover(low, high) for label, low, high in ranges}


def explain_unlinkable(manifest: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Say why a release cannot be linked by these attributes; None if it can."""
    reason = read_form(manifest).unlinkable
    return reason if reason is not None else next(iter(explain_changes(manifest, names).values()), None)


def explain_changes(manifest: Mapping[str, Any], names: Collection[str]) -> dict[str, str]:
    """Return which of these columns were changed by a technique, and why they cannot be compared."""
    return {
        name: f"its column {name!r} was changed by {technique}, and linking compares original values"
        for name, technique, _ in _techniques(manifest)
        if name in names
    }


def refuse_common_tokens(releases: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise if two releases, each a name and a manifest, have tokens that are the same for the same person."""
    for (first, one), (second, other) in combinations(releases, 2):
        for reason in find_common_tokens(one, other).values():
            raise InputError(f"{first} and {second} have {reason}")


def find_common_tokens(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of the other release whose tokens one release has as well, and the disclosure in words.

    A manifest does not name the key, so pseudonyms of the same domain count as having the same key.
    """
    known = list(_lasting(one))
    return {
        column: f"tokens that are the same for the same value (columns {own!r} and {column!r}): anyone who has both "
        "releases joins a person's rows, and no class hides them"
        for column, tokens in _lasting(other)
        for own, same in known
        if same == tokens
    }


def _lasting(manifest: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the columns of tokens that other releases may have as well, and what makes them the same."""
    for name, technique, entry in _techniques(manifest):
        if technique == "pseudonym":
            yield name, (technique, str(entry.get("domain")))
        elif technique == "hash" and entry.get("salt") != "random":
            yield name, (technique, "")


def _techniques(manifest: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the changed columns, by which technique, and how."""
    try:
        return [(name, str(entry["technique"]), entry) for name, entry in manifest.get("techniques", {}).items()]
    except (TypeError, KeyError, AttributeError):
        raise InputError("its manifest does not explain its techniques; run `shoal verify` on it") from None
