"""The manifest: what a release says of itself to whoever receives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import shoal
from shoal.columns.base import describe_changes
from shoal.columns.baskets import describe_items
from shoal.manifest import FIGURES, FORMAT
from shoal.models.base import ValueModel
from shoal.release.columns import spell_leaves
from shoal.release.publication import Publication
from shoal.taxonomies.files import to_nested
from shoal.utility.base import Utility


def build_manifest(publication: Publication, utility: Utility, population_digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a release, all but the entries on its files."""
    policy = publication.policy
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "shoal_version": shoal.__version__,
        "method": policy.method.name,
        "method_parameters": policy.method.model_dump(mode="json", exclude_none=True),
        "guarantees": [guarantee.as_dict() for guarantee in publication.guarantees()],
        "parts": [list(part) for part in publication.parts],
        "rows": publication.n_rows,
        "withheld": publication.n_withheld,
        "missing": {
            "policy": policy.missing,
            "tokens": list(policy.source.missing),
            "dropped": publication.n_dropped,
        },
        "attributes": _attributes(publication),
        "utility": {name: utility[name] for name in FIGURES if name in utility and not policy.method.averages},
        **publication.own_entries,
        **describe_changes(publication.source),
    }
    if policy.units:
        manifest["people"] = policy.units
    taxonomies = {one.name: one.taxonomy for one in (*publication.quasi, *publication.sensitive)}
    items = describe_items(publication.source, taxonomies, len(publication.quasi), publication.find_leaves)
    if items:
        manifest["items"] = items
    if population_digests:
        manifest["populations"] = {path: {"sha256": digest} for path, digest in population_digests.items()}
    return manifest


def _attributes(publication: Publication) -> dict[str, Any]:
    policy = publication.policy
    quasi = {attribute.name: place for place, attribute in enumerate(publication.quasi)}
    sensitive = {attribute.name: place for place, attribute in enumerate(publication.sensitive)}
    entries: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in publication.parts for name in part):
        if name in quasi:
            entry = publication.quasi_entry(quasi[name])
        elif name in sensitive:
            entry = _sensitive(publication, sensitive[name])
        else:
            entry = {"role": "insensitive", "kind": _kind(publication.source.schema.field(name).type)}
        description = policy.attributes[name].description
        entries[name] = entry if description is None else {**entry, "description": description}
    return entries


def _sensitive(publication: Publication, place: int) -> dict[str, Any]:
    """Say of a sensitive attribute what its models need: the order of its values, or its tree."""
    attribute = publication.sensitive[place]
    generalized = publication.sensitive_column(place)
    if generalized is None:
        scale = attribute.taxonomy.scale
        entry = {"role": "sensitive", "kind": scale.kind, **scale.reading()}
    else:
        entry = generalized.describe()
        if publication.policy.method.defends_labels:
            entry["defended"] = True
    distances = {
        getattr(model, "distance", None)
        for model in publication.policy.privacy
        if isinstance(model, ValueModel) and (not model.attributes or attribute.name in model.attributes)
    }
    if "ordered" in distances:
        entry["order"] = list(_list_texts(publication, place).values())
    if "hierarchical" in distances:
        entry["taxonomy"] = to_nested(attribute.taxonomy, _list_texts(publication, place))
    return entry


def _list_texts(publication: Publication, place: int) -> dict[int, str]:
    """Return the values that are published, or lie under a published label, by their leaves, in order."""
    generalized = publication.sensitive_column(place)
    text_of = spell_leaves(publication.sensitive[place], publication.seen)
    if generalized is not None:
        shown = {text for cover in generalized.covers for text in cover["values"]}
        return {leaf: text for leaf, text in sorted(text_of.items()) if text in shown}
    published = publication.find_leaves(len(publication.quasi) + place).tolist()
    return {leaf: text_of[leaf] for leaf in published if leaf in text_of}


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "date" if pa.types.is_temporal(kind) else "category"
