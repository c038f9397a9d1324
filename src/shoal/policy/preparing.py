"""Applying a policy's sample, techniques and baskets to the source, and adapting the policy to the result."""

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
    """Return policy and source after sampling and techniques; all later steps use these.

    Identifiers that become tokens are insensitive afterwards. If the policy has models, such an identifier must not
    repeat a token: otherwise the records of a class could belong to one person.

    With a seed, randomness depends on the policy. Otherwise comparing two releases with different noise would remove
    the noise, and two releases would have the same tokens.

    If chance or another record decides a sensitive value, models must also hold for the true values, which the source
    keeps in further columns.
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
    """Return randomness for one purpose of one policy, independent of other policies' if there is a seed."""
    if not chance.seeded:
        return chance
    techniques = [technique.model_dump_json(exclude={"key"}) for technique in policy.techniques.values()]
    parts = [policy.document, repr(policy.method), repr(policy.sample), techniques]  # paths of keys as written
    return chance.apart(purpose + json.dumps(parts, default=str))


def unfold_baskets(policy: Policy, source: Source) -> tuple[Policy, Source]:
    """Replace every column that has ``items`` by attributes, in policy and source."""
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
