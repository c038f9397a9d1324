"""similarity: the values that are left differ, but all mean much the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.attacks.answers import Answers, SecretAttack, answer_surely
from shoal.attacks.base import People
from shoal.attacks.parts import Secret
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import CodeArray


class SimilarityAttack(SecretAttack):
    """Says the category of somebody's value if everything that is left is of this category.

    Li, Li and Venkatasubramanian, "t-Closeness", section 3: gastric ulcer, gastritis and stomach cancer are three
    values and one stomach. Categories are the nodes below the root of the sensitive attribute's taxonomy, by the
    policy or else by the manifest. Without the release, the most frequent category is said of the same people.
    """

    name = "similarity"
    title = "whose possible sensitive values are all of one kind"
    of_records = of_values = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: it must be known which values are alike."""
        reason = super().refuses(view)
        if reason is None and any(categories(view, secret) is None for secret in view.secrets.values()):
            return "no taxonomy shows which sensitive values are similar; give the policy"
        return reason

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Answer where one category is left."""
        category = categories(view, secret)
        if category is None:
            raise TypeError("an attack that refuses is not run")
        return answer_surely(view, secret, people, category, rng)


def categories(view: ReleaseView, secret: Secret) -> CodeArray | None:
    """Return (n_values,) the category of each value, or None if nothing tells; a missing value is one of its own."""
    found = _by_policy(view, secret)
    if found is None:
        found = _by_manifest(view.manifest["attributes"][secret.name])
    if secret.edges is not None or found is None or len(set(found.values())) in (1, len(found)):
        return None
    number = {name: place for place, name in enumerate(dict.fromkeys(found.values()))}
    extra = len(number)
    return np.array(
        [number[found[value]] if value in found else extra + place for place, value in enumerate(secret.values)],
        dtype=np.int32,
    )


def _by_policy(view: ReleaseView, secret: Secret) -> dict[str | None, str] | None:
    """Return the category of each published value by the policy's taxonomy."""
    attribute = None if view.policy is None else view.policy.attributes.get(secret.name)
    if attribute is None or attribute.taxonomy is None:
        return None
    values = [value for value in secret.values if value is not None]
    tree = attribute.taxonomy.build(pa.array(values, pa.string()))
    leaves = tree.encode(pa.array(values, pa.string()))
    top: dict[str | None, str] = {}
    for value, leaf in zip(values, leaves.tolist(), strict=True):
        node = leaf
        while tree.parent[node] >= 0 and tree.parent[node] != tree.root:
            node = int(tree.parent[node])
        top[value] = tree.labels[node]
    return top


def _by_manifest(entry: Mapping[str, Any]) -> dict[str | None, str] | None:
    """Return the category of each value by the manifest's tree or, of generalized values, by its widest labels."""
    if "taxonomy" in entry:
        tree: Mapping[str, Any] = next(iter(entry["taxonomy"].values()))
        return {leaf: label for label, below in tree.items() for leaf in _leaves(label, below)}
    labels = entry.get("labels")
    if labels is None:
        return None
    every = {value for cover in labels.values() for value in cover.get("values", ())}
    wide = {label: cover["values"] for label, cover in labels.items() if len(cover.get("values", ())) < len(every)}
    ordered = sorted(wide, key=lambda label: len(wide[label]))
    return {value: label for label in ordered for value in wide[label]}  # the widest comes last


def _leaves(label: str, below: Mapping[str, Any]) -> list[str]:
    if not below:
        return [label]
    return [leaf for child, rest in below.items() for leaf in _leaves(child, rest)]
