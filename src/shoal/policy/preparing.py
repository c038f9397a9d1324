"""The source as a policy's sample, techniques and baskets leave it, and the policy of what is left."""

from __future__ import annotations

import json
from dataclasses import replace

from shoal.columns.base import find_domain, list_changed, treat
from shoal.columns.baskets import NONE, UnfoldedSource, unfold_column
from shoal.columns.sampling import sample
from shoal.columns.tokens import refuse_repeated
from shoal.core.randomness import Chance
from shoal.models.base import ValueModel
from shoal.policy.policy import AttributePolicy, Policy
from shoal.sources.base import Source
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.tree import free_label


def change_source(policy: Policy, source: Source, chance: Chance) -> tuple[Policy, Source]:
    """Return policy and source after sampling and techniques, which every later step takes for the given ones.

    An identifier whose values became tokens is insensitive from here on. If classes of records are promised anything,
    no identifier may have the same token twice: the records of a class could else be one person's. With a seed,
    another policy draws anew: noise of two widths would else be taken off by comparing both releases, and tokens of
    two releases would be the same. Models of values must hold for true values too, if chance or another record decided
    a sensitive value: the source keeps such values in further columns.
    """
    chance = chance_of(policy, chance)
    if policy.sample is not None:
        source = sample(policy.sample, source, chance, policy.units.get(policy.sample.one_per or ""))
    if not policy.techniques:
        return policy, source
    shown = tuple(name for name in policy.techniques if policy.attributes[name].role == "identifier")
    tokens = tuple(name for name in shown if policy.techniques[name].consistent)
    if policy.privacy:
        refuse_repeated(source, tokens)
    domains = {name: find_domain(attribute.taxonomy) for name, attribute in policy.attributes.items()}
    attributes: dict[str, AttributePolicy] = {
        name: replace(attribute, role="insensitive") if name in shown else attribute
        for name, attribute in policy.attributes.items()
    }
    true = {}  # columns that are counted and never published
    for name, technique in list_changed(policy.techniques).items():
        asked = any(isinstance(model, ValueModel) and name in (model.attributes or [name]) for model in policy.privacy)
        if asked and attributes[name].role == "sensitive" and not technique.determined:
            column, declared = free_label(f"true {name}", source.schema.names), attributes[name].taxonomy
            taxonomy = None if isinstance(declared, IntervalsTaxonomy) else declared  # true numbers may be finer
            attributes[column], true[column] = AttributePolicy("identifier", taxonomy), name
    treated = treat(policy.techniques, source, chance, domains, tokens, true)
    return replace(policy, attributes=attributes, true_values=true), treated


def chance_of(policy: Policy, chance: Chance, purpose: str = "") -> Chance:
    """Return the chance of one purpose of one policy: with a seed, draws of other policies tell nothing of it."""
    if not chance.seeded:
        return chance
    techniques = [technique.model_dump_json(exclude={"key"}) for technique in policy.techniques.values()]
    parts = [policy.document, repr(policy.method), repr(policy.sample), techniques]  # paths of keys as written
    return chance.apart(purpose + json.dumps(parts, default=str))


def unfold_baskets(policy: Policy, source: Source) -> tuple[Policy, Source]:
    """Return policy and source with attributes in place of every column that has ``items``; else both as they are."""
    options = {name: attribute.items for name, attribute in policy.attributes.items() if attribute.items is not None}
    if not options:
        return policy, source
    tokens = frozenset(token.strip() for token in policy.source.missing)
    unfoldings = [unfold_column(source, name, wanted, tokens) for name, wanted in options.items()]
    attributes: dict[str, AttributePolicy] = {}
    for name, attribute in policy.attributes.items():
        if attribute.items is None:
            attributes[name] = attribute
            continue
        plain = replace(attribute, items=None, taxonomy=FlatTaxonomy())
        for number, derived in enumerate(attribute.items.quasi_names(name), start=1):
            attributes[derived] = replace(plain, description=_describe(attribute, f"items of group {number}"))
        for derived in attribute.items.sensitive_names(name):
            description = _describe(attribute, "sensitive items")
            attributes[derived] = replace(plain, role="sensitive", description=description)
    return replace(policy, attributes=attributes), UnfoldedSource.of(source, unfoldings)


def _describe(attribute: AttributePolicy, what: str) -> str:
    separator = "" if attribute.items is None else attribute.items.separator
    text = f"{what}, with {separator!r} between them; {NONE} if there are none"
    return text if attribute.description is None else f"{attribute.description}: {text}"
