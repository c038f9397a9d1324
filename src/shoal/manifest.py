"""The manifest: what a release says of itself to whoever receives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import shoal
from shoal.guarantees import Guarantee
from shoal.models.base import ValueModel
from shoal.policy import Policy
from shoal.rewriting import Rewriter
from shoal.sensitive_labels import spelled
from shoal.sources import Source
from shoal.taxonomies.export import nested
from shoal.utility.base import measured

FORMAT = 1


def build_manifest(
    policy: Policy,
    source: Source,
    rewriter: Rewriter,
    guarantees: Sequence[Guarantee],
    population_digests: Mapping[str, str],
) -> dict[str, Any]:
    """Return the manifest of a release, all but the entry on its data file."""
    encoding, plan = rewriter.encoding, rewriter.plan
    names = rewriter.names(source)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "shoal_version": shoal.__version__,
        "method": policy.method.name,
        "method_parameters": policy.method.model_dump(mode="json", exclude_none=True),
        "guarantees": [guarantee.as_dict() for guarantee in guarantees],
        "parts": [names],
        "rows": encoding.problem.cells.n_records - plan.n_withheld,
        "withheld": plan.n_withheld,
        "missing": {
            "policy": policy.missing,
            "tokens": list(policy.source.missing),
            "dropped": encoding.n_dropped,
        },
        "attributes": _attributes(policy, source, rewriter, names),
        "utility": measured(encoding.problem, plan, detail=True),
    }
    if plan.levels:
        manifest["levels"] = dict(plan.levels)
    if population_digests:
        manifest["populations"] = {path: {"sha256": digest} for path, digest in population_digests.items()}
    return manifest


def _attributes(policy: Policy, source: Source, rewriter: Rewriter, names: Sequence[str]) -> dict[str, Any]:
    quasi = {column.attribute.name: column for column in rewriter.columns}
    sensitive = {attribute.name: place for place, attribute in enumerate(rewriter.encoding.problem.sensitive)}
    entries: dict[str, Any] = {}
    for name in names:
        if name in quasi:
            entry = quasi[name].describe()
        elif name in sensitive:
            entry = _sensitive(policy, sensitive[name], rewriter)
        else:
            entry = {"role": "insensitive", "kind": _kind(source.schema.field(name).type)}
        description = policy.attributes[name].description
        entries[name] = entry if description is None else {**entry, "description": description}
    return entries


def _sensitive(policy: Policy, place: int, rewriter: Rewriter) -> dict[str, Any]:
    """Say of a sensitive attribute what its models need: the order of its values, or its tree."""
    attribute = rewriter.encoding.problem.sensitive[place]
    generalized = rewriter.sensitive_columns[place]
    if generalized is None:
        scale = attribute.taxonomy.scale
        entry = {"role": "sensitive", "kind": scale.kind, **scale.reading()}
    else:
        entry = generalized.describe()
    distances = {
        getattr(model, "distance", None)
        for model in policy.privacy
        if isinstance(model, ValueModel) and (not model.attributes or attribute.name in model.attributes)
    }
    if "ordered" in distances:
        entry["order"] = list(_published_texts(place, rewriter).values())
    if "hierarchical" in distances:
        entry["taxonomy"] = nested(attribute.taxonomy, _published_texts(place, rewriter))
    return entry


def _published_texts(place: int, rewriter: Rewriter) -> dict[int, str]:
    """Return the values that are published, or lie under a published label, by their leaves, in order."""
    problem = rewriter.encoding.problem
    attribute, generalized = problem.sensitive[place], rewriter.sensitive_columns[place]
    text_of = spelled(attribute, rewriter.counted)
    if generalized is not None:
        shown = {text for cover in generalized.covers for text in cover["values"]}
        return {leaf: text for leaf, text in sorted(text_of.items()) if text in shown}
    cell, class_of, _, _ = rewriter.plan.pieces(problem.cells.counts)
    published = np.unique(problem.cells.codes[len(problem.quasi) + place][cell[class_of >= 0]]).tolist()
    return {leaf: text_of[leaf] for leaf in published if leaf in text_of}


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "date" if pa.types.is_temporal(kind) else "category"
