"""Techniques with usual parameters, as a table: how each is applied to the attributes that a policy declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from shoal.columns.numbers import MOST_DECIMALS, decimals_of
from shoal.columns.verdicts import (
    AGGREGATION,
    DIFFERENTIAL_PRIVACY,
    HASHING,
    L_DIVERSITY,
    NOISE_ADDITION,
    PSEUDONYMISATION,
    SUBSTITUTION,
    Verdict,
)
from shoal.core.wording import parameters_text
from shoal.policy.policy import Policy, Role
from shoal.taxonomies.builders.numbers import IntervalsTaxonomy

USUAL_T = 0.2
USUAL_TAU = 0.5
EPSILONS = (1, 10)
NOISE = 0.05  # scale, as a share of the declared domain
ROUNDED = 0.1  # base, as a share of the declared domain
CODED = 0.05  # of the records, at each end
SWAPPED = 0.2  # of the records
SAMPLED = 0.1  # of the records
USUAL_K = 5
USUAL_L = (3, 2)  # the first that leaves space above the commonest value's share
ROOM = 0.9
DIVERSITIES = ("simple-l-diversity", "entropy-l-diversity", "recursive-cl-diversity", "distinct-l-diversity")
NO_NUMBERS = "no quasi attribute is a number with a declared domain; declare intervals with min and max"
NOTHING_SENSITIVE = "no attribute is sensitive, so there is nothing to keep diverse"
_OWN = ("privacy", "method", "sample")  # what a recipe says itself


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy that applies a technique, and its parameters in plain words."""

    parameters: str
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

    def treat(self, parameters: str, techniques: Mapping[str, Mapping[str, Any]]) -> list[Setting]:
        """Return the setting that publishes rows as these techniques leave them, without any promise."""
        return [] if not techniques else [Setting(parameters, self.document({"plain": {}}, techniques=techniques))]

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

    def k_anonymity(self) -> dict[str, Any]:
        """Return the policy's k-anonymity, or the usual one."""
        return self._model_or("k-anonymity", {"k": USUAL_K})

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

    def simple_diversity(self) -> dict[str, Any]:
        """Return the policy's simple l-diversity, or one that the table can reach."""
        return self.diversity("simple-l-diversity")

    def closeness(self) -> dict[str, Any]:
        """Return the policy's t-closeness, or the usual one."""
        return self._model_or("t-closeness", {"t": USUAL_T, "distance": "equal"})

    def tau_l_diversity(self) -> dict[str, Any]:
        """Return the policy's (tau,l)-diversity, or one of the l that its l-diversity has, 2 at least."""
        (parameters,) = self.diversity().values()
        return self._model_or("tau-l-diversity", {"tau": USUAL_TAU, "l": max(2, int(parameters["l"]))})

    def _model_or(self, name: str, usual: Mapping[str, Any]) -> dict[str, Any]:
        own = [model.model_dump(mode="json", exclude_none=True) for model in self.policy.privacy if model.name == name]
        return {name: own[0] if own else dict(usual)}


Apply: TypeAlias = Callable[[Base], list[Setting] | str]  # policies that apply a technique, or why it cannot serve


@dataclass(frozen=True, slots=True)
class Recipe:
    """A technique of the opinion, or of the field, as it is usually applied."""

    name: str
    title: str
    apply: Apply
    verdict: Verdict | None = None  # the opinion's, where it rates the technique


def models_text(privacy: Sequence[Mapping[str, Any]]) -> str:
    """Write models with their parameters.

    >>> models_text([{"k-anonymity": {"k": 5}}, {"t-closeness": {"t": 0.2, "distance": "equal"}}])
    'k-anonymity k = 5; t-closeness t = 0.2, distance = equal'
    """
    return "; ".join(f"{name} {parameters_text(given)}" for model in privacy for name, given in model.items())


def noise_of(domain: IntervalsTaxonomy) -> tuple[float, int]:
    """Return the scale of the noise, a step of the domain at least, and the decimals that the step has.

    >>> noise_of(IntervalsTaxonomy(min=0, max=120)), noise_of(IntervalsTaxonomy(min=1, max=16))
    ((6.0, 0), (1.0, 0))
    """
    decimals = min(decimals_of(domain.finest), MOST_DECIMALS)
    return max(round(NOISE * (domain.max - domain.min), decimals), 10.0**-decimals), decimals


def base_of(domain: IntervalsTaxonomy) -> int | float:
    """Return the multiple of the finest step that is nearest to the share of the domain, two steps at least.

    >>> base_of(IntervalsTaxonomy(min=0, max=99)), base_of(IntervalsTaxonomy(min=0, max=1, widths=(0.5,), step=0.1))
    (10, 0.2)
    """
    return domain.finest * max(2, round(ROUNDED * (domain.max - domain.min) / domain.finest))


def _treat(role: Role, parameters: str, technique: Callable[[Base], dict[str, Any]], reason: str) -> Apply:
    """Apply a technique to every attribute of a role; *parameters* has ``{names}`` where they are named."""

    def apply(base: Base) -> list[Setting] | str:
        names = base.names(role)
        return (
            base.treat(parameters.format(names=", ".join(names)), {name: technique(base) for name in names}) or reason
        )

    return apply


def _add_noise(base: Base) -> list[Setting] | str:
    """Move all quasi numbers of declared domains by Laplace noise, drawn again at the edges."""
    noise = {name: noise_of(domain) for name, domain in base.numbers.items()}
    parameters = ", ".join(f"{name} {scale:g}" for name, (scale, _) in noise.items())
    techniques = {
        name: {"noise": {"laplace": {"scale": scale}, "edges": "redraw", "decimals": decimals}}
        for name, (scale, decimals) in noise.items()
    }
    return base.treat(f"Laplace scale {NOISE:.0%} of the domain: {parameters}", techniques) or NO_NUMBERS


def _round(base: Base) -> list[Setting] | str:
    """Round all quasi numbers of declared domains."""
    bases = {name: base_of(domain) for name, domain in base.numbers.items()}
    parameters = ", ".join(f"{name} to multiples of {each:g}" for name, each in bases.items())
    return base.treat(parameters, {name: {"rounding": {"base": each}} for name, each in bases.items()}) or NO_NUMBERS


def _code(base: Base) -> list[Setting] | str:
    """Cut the ends of all quasi numbers of declared domains."""
    technique = {"coding": {"shares": {"top": CODED, "bottom": CODED}}}
    parameters = f"{', '.join(base.numbers)} at the outer {CODED:.0%} of the records"
    return base.treat(parameters, dict.fromkeys(base.numbers, technique)) or NO_NUMBERS


def _sample(base: Base) -> list[Setting]:
    return [Setting(f"{SAMPLED:.0%} of the records", base.document({"plain": {}}, sample={"share": SAMPLED}))]


def _synthesize(base: Base) -> list[Setting] | str:
    """Spend a little, and much; insensitive attributes are left out."""
    free = [name for name in base.names("quasi", "sensitive") if base.policy.attributes[name].taxonomy is None]
    if free:
        return f"the values of {', '.join(free)} are not declared; give them a taxonomy, such as a list of values"
    settings = []
    for epsilon in EPSILONS:
        document = base.document({"synthetic": {"epsilon": epsilon}})
        for name in base.names("insensitive"):
            document["attributes"][name] = {"role": "identifier"}
        settings.append(Setting(f"epsilon = {epsilon}", document))
    return settings


def _ask(method: str, *models: Callable[[Base], dict[str, Any]], sensitive: bool = True, named: bool = False) -> Apply:
    """Ask a method for some models; *sensitive* ones need an attribute to keep diverse."""

    def apply(base: Base) -> list[Setting] | str:
        if sensitive and not base.commonest:
            return NOTHING_SENSITIVE
        privacy = [model(base) for model in models]
        parameters = f"{method}, {models_text(privacy)}" if named else models_text(privacy)
        return [Setting(parameters, base.document({method: {}}, privacy))]

    return apply


RECIPES = (  # in the order of the table; every other row is read against the first one
    Recipe(
        "original",
        "values as they are, identifiers left out",
        lambda base: [Setting("identifiers left out", base.document({"plain": {}}))],
    ),
    Recipe(
        "pseudonymisation",
        "keyed tokens in place of identifiers",
        _treat(
            "identifier",
            "{names} under a key",
            lambda base: {"pseudonym": {"key": str(base.key.absolute())}},
            "no attribute is an identifier, so there is nothing to put pseudonyms for",
        ),
        PSEUDONYMISATION,
    ),
    Recipe(
        "hashing",
        "salted hashes in place of identifiers",
        _treat(
            "identifier",
            "{names} with a random salt",
            lambda _: {"hash": {"salt": "random"}},
            "no attribute is an identifier, so there is nothing to hash",
        ),
        HASHING,
    ),
    Recipe("noise", "Laplace noise on quasi numbers", _add_noise, NOISE_ADDITION),
    Recipe(
        "swapping",
        "quasi values exchanged between pairs of records",
        _treat(
            "quasi",
            f"{SWAPPED:.0%} of the records, each quasi attribute on its own",
            lambda _: {"swapping": {"share": SWAPPED}},
            "no quasi attribute holds single values that could be exchanged",
        ),
        SUBSTITUTION,
    ),
    Recipe(
        "permutation",
        "sensitive values permuted",
        _treat(
            "sensitive",
            "{names} over the whole table",
            lambda _: {"permutation": {}},
            "no attribute is sensitive, so there is nothing to permute",
        ),
        SUBSTITUTION,
    ),
    Recipe("rounding", "quasi numbers rounded", _round),
    Recipe("coding", "the ends of quasi numbers cut", _code),
    Recipe("sampling", "a random tenth of the records, as they are", _sample),
    Recipe(
        "microaggregation",
        "averages of groups of k like records",
        _ask("microaggregation", Base.k_anonymity, sensitive=False),
        AGGREGATION,
    ),
    Recipe(
        "k-anonymity",
        "generalized classes of at least k records",
        _ask("mondrian", Base.k_anonymity, sensitive=False, named=True),
        AGGREGATION,
    ),
    Recipe(
        "l-diversity",
        "generalized classes with diverse sensitive values",
        _ask("mondrian", Base.k_anonymity, Base.diversity, named=True),
        L_DIVERSITY,
    ),
    Recipe(  # the opinion speaks of it together with l-diversity, whose verdict it has here
        "t-closeness",
        "generalized classes spread like the whole table",
        _ask("mondrian", Base.k_anonymity, Base.closeness, named=True),
        L_DIVERSITY,
    ),
    Recipe(
        "tau-l-diversity",
        "classes of the sequential sweep",
        _ask("sweep", Base.tau_l_diversity, named=True),
        L_DIVERSITY,
    ),
    Recipe("anatomy", "sensitive values apart from the rest, by bucket", _ask("anatomy", Base.simple_diversity)),
    Recipe("slicing", "groups of attributes apart, by bucket", _ask("slicing", Base.simple_diversity)),
    Recipe("differential-privacy", "synthetic rows of noisy counts", _synthesize, DIFFERENTIAL_PRIVACY),
)
