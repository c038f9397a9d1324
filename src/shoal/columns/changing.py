"""The source as a policy's sample and techniques leave it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shoal.columns.domains import declared_domain
from shoal.columns.persons import refuse_repeated
from shoal.columns.sampling import SampledSource, sampled
from shoal.columns.treating import TreatedSource, treated
from shoal.core.randomness import Chance
from shoal.policy.policy import AttributePolicy, Policy
from shoal.sources.base import Source, layers


def changed(policy: Policy, source: Source, chance: Chance) -> tuple[Policy, Source]:
    """Return policy and source after sampling and techniques, which every later step takes for the given ones.

    An identifier whose values became tokens is insensitive from here on. If classes of records are promised anything,
    no identifier may have the same token twice: the records of a class could else be one person's. With a seed,
    another policy draws anew: noise of two widths would else be taken off by comparing both releases, and tokens of
    two releases would be the same.
    """
    chance = chance_of(policy, chance)
    if policy.sample is not None:
        source = sampled(policy.sample, source, chance, policy.units.get(policy.sample.one_per or ""))
    if not policy.techniques:
        return policy, source
    tokens = _identifiers(policy)
    if policy.privacy:
        refuse_repeated(source, tokens)
    domains = {name: declared_domain(attribute.taxonomy) for name, attribute in policy.attributes.items()}
    attributes: dict[str, AttributePolicy] = {
        name: replace(attribute, role="insensitive") if name in tokens else attribute
        for name, attribute in policy.attributes.items()
    }
    return replace(policy, attributes=attributes), treated(policy.techniques, source, chance, domains, tokens)


def chance_of(policy: Policy, chance: Chance, purpose: str = "") -> Chance:
    """Return the chance of one purpose of one policy: with a seed, draws of other policies tell nothing of it."""
    return chance.apart(purpose + _wording(policy)) if chance.seeded else chance


def _wording(policy: Policy) -> str:
    """Return a text that differs for policies that say different things; paths of keys are as they were written."""
    techniques = [technique.model_dump_json(exclude={"key"}) for technique in policy.techniques.values()]
    return json.dumps([policy.document, repr(policy.method), repr(policy.sample), techniques], default=str)


def _identifiers(policy: Policy) -> tuple[str, ...]:
    return tuple(name for name in policy.techniques if policy.attributes[name].role == "identifier")


def warnings_of(source: Source) -> list[str]:
    """Return what the data holder should know of a source's changes before they are published."""
    treatments = (layer.treatments.values() for layer in layers(source) if isinstance(layer, TreatedSource))
    return [warning for each in treatments for treatment in each for warning in treatment.warnings()]


def changes(source: Source) -> Mapping[str, Any]:
    """Return what everybody may know of a source's changes: entries of the manifest, none if there are no changes."""
    entries: dict[str, Any] = {}
    for layer in layers(source):
        if isinstance(layer, TreatedSource):
            entries["techniques"] = layer.describe()
        elif isinstance(layer, SampledSource):
            entries["sample"] = layer.describe()
    return entries
