"""The privacy models that a manifest may promise: their parameters and, in ``statements.py``, their formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from shoal.manifest import Listed, ManifestError, NotNegative, Positive, StrictEntry, read_entry
from shoal.verify import statements as sql
from shoal.verify.promises import Model, Promise, Subject

GROUP = "shoal.promises"  # of entry points


def _check_curve(psi: tuple[float, ...]) -> tuple[float, ...]:
    if len(psi) < 2 or list(psi) != sorted(psi) or psi[0] <= 0 or psi[-1] != 1:
        raise ValueError("does not rise from above 0 to 1")
    return psi


_K = Annotated[int, Field(ge=1, lt=2**53)]
_TWO = Annotated[int, Field(ge=2, lt=2**53)]
_FROM_1 = Annotated[float, Field(ge=1)]
_PART = Annotated[float, Field(gt=0, le=1)]
_UNIT = Annotated[float, Field(ge=0, le=1)]
_NAME = Annotated[str, Field(min_length=1)]
_CURVE = Annotated[Listed[float], AfterValidator(_check_curve)]
_DISTANCE = Literal["equal", "ordered", "hierarchical"]
_BELOW_1 = Annotated[float, Field(ge=0, lt=1)]
_K_OF_POPULATION = {"k": (_K, ...), "population": (_NAME, ...)}
_PRESENCE = {"min": (_UNIT, 0), "max": (_UNIT, ...), "population": (_NAME, ...)}
_TAU = {"tau": (_PART, ...), "l": (_TWO, ...), "psi": (_CURVE, None), "weights": (dict[str, NotNegative], None)}
_HARM = {"harmless": (Listed[str], ())}
_ALL_OF_PSI = (lambda given: given["psi"] is None or len(given["psi"]) == given["l"], "'psi' does not have l numbers")
_IN_ORDER = (lambda given: given["min"] <= given["max"], "'min' is greater than 'max'")

MODELS: Mapping[str, Model] = {
    "k-anonymity": Model({"k": (_K, ...)}, sql.count_records, "sizes", min),
    "profitability": Model({"gain": (Positive, ...), "cost": (Positive, ...)}, sql.limit_profit, "sizes"),
    "average-risk": Model({"risk": (_PART, ...)}, sql.limit_average, "table"),
    "sample-uniqueness": Model({"fraction": (_BELOW_1, ...)}, sql.limit_unique, "table"),
    "column-frequency": Model({"k": (_K, ...)}, None, "parts", min),
    "k-map": Model(_K_OF_POPULATION, sql.count_population, "population", min),
    "delta-presence": Model(_PRESENCE, sql.limit_presence, "population", demands=(_IN_ORDER,)),
    "distinct-l-diversity": Model({"l": (_K, ...), **_HARM}, sql.count_values, worst=min),
    "simple-l-diversity": Model({"l": (_FROM_1, ...), **_HARM}, sql.limit_largest, worst=min),
    "entropy-l-diversity": Model(
        {"l": (_FROM_1, ...), **_HARM}, sql.limit_entropy, worst=min, settle=sql.settle_entropy
    ),
    "recursive-cl-diversity": Model({"c": (Positive, ...), "l": (_K, ...), **_HARM}, sql.limit_recursively),
    "tau-l-diversity": Model({**_TAU, **_HARM}, sql.limit_most_frequent, labels=True, demands=(_ALL_OF_PSI,)),
    "t-closeness": Model({"t": (NotNegative, ...), "distance": (_DISTANCE, "equal")}, sql.limit_distance),
    "alpha-k-anonymity": Model({"alpha": (_PART, ...), "k": (_K, ...), **_HARM}, sql.limit_share_and_size, mixes=False),
    "beta-likeness": Model({"beta": (Positive, ...), "enhanced": (bool, False), **_HARM}, sql.limit_gain),
    "delta-disclosure": Model({"delta": (Positive, ...), **_HARM}, sql.limit_change),
    "confidence-bounding": Model({"most": (_PART, ...), "separator": (_NAME, None), **_HARM}, sql.limit_items),
    # of releases by an agency's plan, and of these only; agreed.py asks the plan
    "l-delta-diversity": Model({"l": (_K, ...), "delta": (Positive, ...)}, None, "plan"),
    "k-delta-anonymity": Model({"k": (_K, ...), "delta": (Positive, ...)}, None, "plan"),
    "entropy-l-delta-diversity": Model({"l": (_FROM_1, ...), "delta": (Positive, ...)}, None, "plan"),
}


@cache
def find_model(name: str) -> Model | None:
    """Return a model of this verifier or, if another package registered one, of that; None if it is unknown."""
    if name in MODELS:
        return MODELS[name]
    for entry in entry_points(group=GROUP, name=name):
        found = entry.load()
        if isinstance(found, Model):
            return found
    return None


@cache
def _shape_of(name: str) -> type[StrictEntry]:
    """Return the strict model of a model's parameters."""
    model = find_model(name)
    fields: dict[str, Any] = {} if model is None else dict(model.parameters)
    return create_model("Parameters", __base__=StrictEntry, **fields)


def read_promise(
    name: str, parameters: Mapping[str, Any], claimed: float | None, sensitive: Sequence[str], *, agreed: bool = False
) -> Promise:
    """Return the promise with defaults filled in; whatever makes it uncheckable is its obstacle.

    A release by an agency's plan has its own promises, which no other release can make.
    """
    model = find_model(name)

    def refuse(why: str) -> Promise:
        return Promise(name, dict(parameters), claimed, obstacle=f"cannot check: {why}")

    if model is None or (model.about == "plan") != agreed:
        return refuse("this verifier does not know the model")
    about_values = model.about == "values"
    given = {key: value for key, value in parameters.items() if not about_values or key != "attribute"}
    try:
        read_entry(_shape_of(name), given, "parameters")
    except ManifestError as fault:
        return refuse(str(fault))
    full = {key: given.get(key, default) for key, (_, default) in model.parameters.items()}
    for holds, otherwise in model.demands:
        if not holds(full):
            return refuse(otherwise)
    if not about_values:
        return Promise(name, full, claimed)
    subjects = _find_subjects(parameters.get("attribute"), sensitive)
    if not subjects:
        return refuse("'attribute' names no sensitive attribute of the release")
    return Promise(name, {**full, "attribute": parameters.get("attribute")}, claimed, subjects)


def _find_subjects(named: Any, sensitive: Sequence[str]) -> tuple[Subject, ...]:
    if named is None:
        return tuple((name,) for name in sensitive)
    members = [named] if isinstance(named, str) else named
    if not isinstance(members, list | tuple) or not members or len(set(map(str, members))) != len(members):
        return ()
    return (tuple(members),) if all(member in sensitive for member in members) else ()


def worst_of(promise: Promise) -> Callable[..., float]:
    """Return which of several figures is the worst: the smallest, or the largest."""
    model = find_model(promise.model)
    return max if model is None else model.worst
