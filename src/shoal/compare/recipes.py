"""The table of techniques with usual parameters, and how each is applied to the attributes of a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from shoal.columns.base import (
    AGGREGATION,
    DIFFERENTIAL_PRIVACY,
    HASHING,
    L_DIVERSITY,
    NOISE_ADDITION,
    PSEUDONYMISATION,
    SUBSTITUTION,
    Verdict,
)
from shoal.columns.numbers import MOST_DECIMALS, decimals_of
from shoal.core.wording import parameters_text
from shoal.policy.policy import Policy, Role
from shoal.taxonomies.builders.intervals import DatesTaxonomy, IntervalsTaxonomy, NumbersTaxonomy
from shoal.taxonomies.builders.listed import MaskTaxonomy

USUAL: dict[str, dict[str, Any]] = {"k-anonymity": {"k": 5}, "t-closeness": {"t": 0.2, "distance": "equal"}}
USUAL_TAU = 0.5
USUAL_L = (3, 2)  # the largest that leaves a margin above the share of the most frequent value
SPACE = 0.9
EPSILONS = (1, 10)
NOISE = 0.05  # scale, as a share of the declared domain
ROUNDED = 0.1  # base, as a share of the declared domain
CODED = 0.05  # of the records, at each end
KEPT = 0.8  # probability with which PRAM keeps a value
SWAPPED = 0.2  # of the records
WINDOW = 0.05  # of the records, between the ranks of exchanged numbers
NOISY = 0.1  # variance of correlated noise, as a share of the numbers' variance
SAMPLED = 0.1  # of the records
DIVERSITIES = ("simple-l-diversity", "entropy-l-diversity", "recursive-cl-diversity", "distinct-l-diversity")
ABSENT = {  # why a technique cannot be applied
    "identifier": "no attribute is an identifier that could be replaced",
    "quasi": "no quasi attribute holds single values that could be exchanged",
    "sensitive": "no attribute is sensitive, so no values can be permuted or kept diverse",
    "several": "fewer than two quasi attributes are numbers with a declared domain; declare intervals with min and max",
    "numbers": "no quasi attribute is a number with a declared domain; declare intervals with min and max",
    "categories": "no quasi attribute is a category that could be replaced at random",
    "areas": "no attribute of the policy has the technique record-swapping, which names the columns of areas",
}
_OWN = ("privacy", "method", "sample")  # keys that every recipe sets itself


class Setting(NamedTuple):
    """A policy that applies a technique, and its parameters in plain words."""

    parameters: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Base:
    """The starting point of recipes: a policy without its own techniques, models and method."""

    policy: Policy
    largest_shares: Mapping[str, float]  # sensitive attribute -> share of its most frequent value
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

    def names(self, *roles: Role) -> list[str]:
        return [name for name, one in self.policy.attributes.items() if one.role in roles and one.items is None]

    @property
    def numbers(self) -> dict[str, IntervalsTaxonomy]:
        """The quasi-identifiers that are numbers of a declared domain, with that domain."""
        declared = {name: self.policy.attributes[name].taxonomy for name in self.names("quasi")}
        return {
            name: domain
            for name, domain in declared.items()
            if isinstance(domain, IntervalsTaxonomy) and domain.open == "none"
        }

    @property
    def categories(self) -> list[str]:
        """The quasi-identifiers that the policy does not declare as numbers, dates or codes."""
        others = (IntervalsTaxonomy, NumbersTaxonomy, DatesTaxonomy, MaskTaxonomy)
        return [name for name in self.names("quasi") if not isinstance(self.policy.attributes[name].taxonomy, others)]

    def model(self, name: str) -> dict[str, Any]:
        """Return the policy's model of this name (any l-diversity for "l-diversity"), or a usual model that the table
        can reach.
        """
        for model in self.policy.privacy:
            if model.name in (DIVERSITIES if name == "l-diversity" else (name,)):
                return {model.name: model.model_dump(mode="json", exclude_none=True)}
        if name in USUAL:
            return {name: USUAL[name]}
        if name == "tau-l-diversity":
            (diverse,) = self.model("l-diversity").values()
            return {name: {"tau": USUAL_TAU, "l": max(2, int(diverse["l"]))}}
        largest = max(self.largest_shares.values(), default=1.0)
        for l in USUAL_L:
            if largest <= SPACE / l:
                return {"simple-l-diversity": {"l": l}}
        return {"distinct-l-diversity": {"l": 2}}


Apply: TypeAlias = Callable[[Base], list[Setting] | str]  # the settings, or why the technique cannot be applied


@dataclass(frozen=True, slots=True)
class Recipe:
    """A technique of the opinion, or of the literature, with its usual parameters."""

    name: str
    title: str
    apply: Apply
    verdict: Verdict | None = None  # of the opinion, if it rates the technique


def models_text(privacy: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{name} {parameters_text(given)}" for model in privacy for name, given in model.items())


def noise_of(domain: IntervalsTaxonomy) -> tuple[float, int]:
    """Return the scale of the noise, at least one step of the domain, and the decimals of the step.

    >>> noise_of(IntervalsTaxonomy(min=0, max=120)), noise_of(IntervalsTaxonomy(min=1, max=16))
    ((6.0, 0), (1.0, 0))
    """
    decimals = min(decimals_of(domain.finest), MOST_DECIMALS)
    return max(round(NOISE * (domain.max - domain.min), decimals), 10.0**-decimals), decimals


def base_of(domain: IntervalsTaxonomy) -> int | float:
    """Return the multiple of the finest step nearest to the usual share of the domain, at least two steps.

    >>> base_of(IntervalsTaxonomy(min=0, max=99)), base_of(IntervalsTaxonomy(min=0, max=1, widths=(0.5,), step=0.1))
    (10, 0.2)
    """
    return domain.finest * max(2, round(ROUNDED * (domain.max - domain.min) / domain.finest))


def _treat(
    which: Role | Literal["numbers", "categories"],
    parameters: str,
    technique: Callable[[Base, str, list[str]], dict[str, Any]],
    name_of: Callable[[Base, str], str] = lambda _, name: name,
    *,
    several: bool = False,
) -> Apply:
    """Apply a technique to every attribute of a role, or to all quasi numbers of declared domains, or all categories.

    The technique gets the attribute and the *others*. *parameters* may have ``{names}``. Rows are published as the
    technique leaves them, without any promise.
    """

    def apply(base: Base) -> list[Setting] | str:
        if which == "categories":
            names = base.categories
        else:
            names = list(base.numbers) if which == "numbers" else base.names(which)
        if len(names) < 1 + several:
            return ABSENT["several" if several else which]
        written = parameters.format(names=", ".join(name_of(base, name) for name in names))
        techniques = {name: technique(base, name, [other for other in names if other != name]) for name in names}
        return [Setting(written, base.document({"plain": {}}, techniques=techniques))]

    return apply


def _add_noise(base: Base, name: str, _: list[str]) -> dict[str, Any]:
    scale, decimals = noise_of(base.numbers[name])
    return {"noise": {"laplace": {"scale": scale}, "edges": "redraw", "decimals": decimals}}


def _swap_records(base: Base) -> list[Setting] | str:
    """Apply the policy's own record swapping; only the data holder can name the columns of areas."""
    own = {name: one for name, one in base.policy.techniques.items() if one.name == "record-swapping"}
    if not own:
        return ABSENT["areas"]
    techniques = {name: {one.name: one.model_dump(mode="json", exclude_none=True)} for name, one in own.items()}
    written = "; ".join(f"{name}: {parameters_text(given['record-swapping'])}" for name, given in techniques.items())
    return [Setting(written, base.document({"plain": {}}, techniques=techniques))]


def _correlate_noise(base: Base, name: str, others: list[str]) -> dict[str, Any]:
    decimals = noise_of(base.numbers[name])[1]
    return {"correlated-noise": {"share": NOISY, "columns": others, "edges": "reflect", "decimals": decimals}}


def _synthesize(base: Base) -> list[Setting] | str:
    """Synthesize with a small and a large budget; insensitive attributes are left out."""
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


def _ask(method: str, *models: str, named: bool = False) -> Apply:
    """Apply a method with some models; models other than k-anonymity need a sensitive attribute."""

    def apply(base: Base) -> list[Setting] | str:
        if models != ("k-anonymity",) and not base.largest_shares:
            return ABSENT["sensitive"]
        privacy = [base.model(name) for name in models]
        parameters = f"{method}, {models_text(privacy)}" if named else models_text(privacy)
        return [Setting(parameters, base.document({method: {}}, privacy))]

    return apply


RECIPES = (  # in the order of the table; the first one is the reference for the others
    Recipe(
        "original",
        "unchanged values, identifiers left out",
        lambda base: [Setting("identifiers left out", base.document({"plain": {}}))],
    ),
    Recipe(
        "pseudonymisation",
        "keyed tokens in place of identifiers",
        _treat("identifier", "{names} under a key", lambda base, *_: {"pseudonym": {"key": str(base.key.absolute())}}),
        PSEUDONYMISATION,
    ),
    Recipe(
        "hashing",
        "salted hashes in place of identifiers",
        _treat("identifier", "{names} with a random salt", lambda *_: {"hash": {"salt": "random"}}),
        HASHING,
    ),
    Recipe(
        "noise",
        "Laplace noise on quasi numbers",
        _treat(
            "numbers",
            f"Laplace scale {NOISE:.0%} of the domain: {{names}}",
            _add_noise,
            lambda base, name: f"{name} {noise_of(base.numbers[name])[0]:g}",
        ),
        NOISE_ADDITION,
    ),
    Recipe(
        "correlated-noise",
        "normal noise on quasi numbers, with their correlations",
        _treat("numbers", f"{{names}}: {NOISY:.0%} of the variance", _correlate_noise, several=True),
        NOISE_ADDITION,
    ),
    Recipe(
        "swapping",
        "quasi values exchanged between pairs of records",
        _treat(
            "quasi",
            f"{SWAPPED:.0%} of the records, each quasi attribute on its own",
            lambda *_: {"swapping": {"share": SWAPPED}},
        ),
        SUBSTITUTION,
    ),
    Recipe(
        "rank-swapping",
        "quasi numbers exchanged between records of near ranks",
        _treat(
            "numbers",
            f"{{names}}: ranks at most {WINDOW:.0%} of the records apart",
            lambda *_: {"rank-swapping": {"window": WINDOW}},
        ),
        SUBSTITUTION,
    ),
    Recipe(
        "record-swapping", "areas exchanged between similar records, those at risk first", _swap_records, SUBSTITUTION
    ),
    Recipe(
        "pram",
        "quasi categories replaced at random, frequencies kept on average",
        _treat(
            "categories",
            f"each value kept with probability {KEPT:g}: {{names}}",
            lambda *_: {"pram": {"keep": KEPT, "invariant": True}},
        ),
        NOISE_ADDITION,
    ),
    Recipe(
        "shuffling",
        "quasi numbers shuffled by the ranks that the others predict",
        _treat(
            "numbers",
            "{names}, each by the others",
            lambda _, __, others: {"shuffling": {"given": others}},
            several=True,
        ),
        SUBSTITUTION,
    ),
    Recipe(
        "permutation",
        "sensitive values permuted",
        _treat("sensitive", "{names} over the whole table", lambda *_: {"permutation": {}}),
        SUBSTITUTION,
    ),
    Recipe(
        "rounding",
        "quasi numbers rounded",
        _treat(
            "numbers",
            "{names}",
            lambda base, name, _: {"rounding": {"base": base_of(base.numbers[name])}},
            lambda base, name: f"{name} to multiples of {base_of(base.numbers[name]):g}",
        ),
    ),
    Recipe(
        "coding",
        "the ends of quasi numbers cut",
        _treat(
            "numbers",
            f"{{names}} at the outer {CODED:.0%} of the records",
            lambda *_: {"coding": {"shares": {"top": CODED, "bottom": CODED}}},
        ),
    ),
    Recipe(
        "sampling",
        "a random tenth of the records, unchanged",
        lambda base: [
            Setting(f"{SAMPLED:.0%} of the records", base.document({"plain": {}}, sample={"share": SAMPLED}))
        ],
    ),
    Recipe(
        "microaggregation", "averages of groups of k like records", _ask("microaggregation", "k-anonymity"), AGGREGATION
    ),
    Recipe(
        "k-anonymity",
        "generalized classes of at least k records",
        _ask("mondrian", "k-anonymity", named=True),
        AGGREGATION,
    ),
    Recipe(
        "local-suppression",
        "single values suppressed until classes have k records",
        _ask("local-suppression", "k-anonymity"),
        AGGREGATION,
    ),
    Recipe(
        "l-diversity",
        "generalized classes with diverse sensitive values",
        _ask("mondrian", "k-anonymity", "l-diversity", named=True),
        L_DIVERSITY,
    ),
    Recipe(  # the opinion rates it together with l-diversity
        "t-closeness",
        "generalized classes spread like the whole table",
        _ask("mondrian", "k-anonymity", "t-closeness", named=True),
        L_DIVERSITY,
    ),
    Recipe(
        "tau-l-diversity", "classes of the sequential sweep", _ask("sweep", "tau-l-diversity", named=True), L_DIVERSITY
    ),
    Recipe("anatomy", "sensitive values apart from the rest, by bucket", _ask("anatomy", "simple-l-diversity")),
    Recipe("slicing", "groups of attributes apart, by bucket", _ask("slicing", "simple-l-diversity")),
    Recipe("differential-privacy", "synthetic rows of noisy counts", _synthesize, DIFFERENTIAL_PRIVACY),
)
