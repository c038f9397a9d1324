"""What a recipe is: how a technique is applied to the attributes that a policy declares, with stated parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from shoal.columns.verdicts import Verdict
from shoal.core.wording import parameters_text
from shoal.policy.policy import Policy, Role
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy

USUAL_K = 5
USUAL_L = (3, 2)  # the first that leaves room above the commonest value's share
ROOM = 0.9
DIVERSITIES = ("simple-l-diversity", "entropy-l-diversity", "recursive-cl-diversity", "distinct-l-diversity")
NO_NUMBERS = "no quasi attribute is a number with a declared domain; declare intervals with min and max"
NOTHING_SENSITIVE = "no attribute is sensitive, so there is nothing to keep diverse"
_OWN = ("privacy", "method", "sample")  # what a recipe says itself


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy that applies a technique, and its parameters in plain words."""

    told: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Base:
    """What recipes start from: the policy, without its own techniques, models and method."""

    policy: Policy
    commonest: Mapping[str, float]  # sensitive attribute -> share of its commonest value
    key: Path  # of pseudonyms, for this comparison only

    def document(
        self,
        method: Mapping[str, Any],
        privacy: Sequence[Mapping[str, Any]] = (),
        techniques: Mapping[str, Mapping[str, Any]] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the policy's document with this method, these models and these attributes' techniques."""
        given = self.policy.document
        attributes = {
            name: {key: value for key, value in options.items() if key != "technique"}
            for name, options in given["attributes"].items()
        }
        for name, technique in (techniques or {}).items():
            attributes[name]["technique"] = dict(technique)
        kept = {key: value for key, value in given.items() if key not in _OWN}
        return {**kept, "attributes": attributes, "privacy": list(privacy), "method": dict(method), **more}

    def treated(self, told: str, techniques: Mapping[str, Mapping[str, Any]]) -> list[Setting]:
        """Return the one setting that publishes rows as these techniques leave them, and promises nothing."""
        return [Setting(told, self.document({"plain": {}}, techniques=techniques))]

    def names(self, *roles: Role) -> list[str]:
        """Return the attributes of these roles that hold one value a record."""
        return [name for name, one in self.policy.attributes.items() if one.role in roles and one.items is None]

    @property
    def numbers(self) -> dict[str, IntervalsTaxonomy]:
        """The quasi attributes that are numbers of a declared domain, with that domain."""
        declared = {name: self.policy.attributes[name].taxonomy for name in self.names("quasi")}
        return {
            name: domain
            for name, domain in declared.items()
            if isinstance(domain, IntervalsTaxonomy) and domain.open == "none"
        }

    @property
    def k(self) -> int:
        """The k of the policy's k-anonymity, or the usual one."""
        return next((int(model.k) for model in self.policy.privacy if model.name == "k-anonymity"), USUAL_K)  # type: ignore[attr-defined]

    @property
    def k_anonymity(self) -> dict[str, Any]:
        """The model of that k."""
        return {"k-anonymity": {"k": self.k}}

    def diversity(self, *among: str) -> dict[str, Any]:
        """Return the policy's l-diversity, if it has one *among* these; else one that the table can reach."""
        for model in self.policy.privacy:
            if model.name in (among or DIVERSITIES):
                return {model.name: model.model_dump(mode="json", exclude_none=True)}
        largest = max(self.commonest.values(), default=1.0)
        for l in USUAL_L:
            if largest <= ROOM / l:
                return {"simple-l-diversity": {"l": l}}
        return {"distinct-l-diversity": {"l": 2}}

    @property
    def n_values(self) -> int:
        """The whole number of values that l-diversity of this policy speaks of, 2 at least."""
        (parameters,) = self.diversity().values()
        return max(2, int(parameters["l"]))


class Recipe(ABC):
    """A technique of the opinion, or of the field, as it is usually applied."""

    name: ClassVar[str]
    title: ClassVar[str]
    place: ClassVar[int]  # in the table
    verdict: ClassVar[Verdict | None] = None  # the opinion's, where it rates the technique

    @abstractmethod
    def settings(self, base: Base) -> list[Setting] | str:
        """Return policies that apply it, or why it cannot serve such a table."""


def told_models(privacy: Sequence[Mapping[str, Any]]) -> str:
    """Write models with their parameters.

    >>> told_models([{"k-anonymity": {"k": 5}}, {"t-closeness": {"t": 0.2, "distance": "equal"}}])
    'k-anonymity k = 5; t-closeness t = 0.2, distance = equal'
    """
    return "; ".join(f"{name} {parameters_text(given)}" for model in privacy for name, given in model.items())
