"""Refusals: policies that promise too much, open findings, and releases that differ from the policy or fail a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from shoal.columns.base import Technique, list_changed
from shoal.core.errors import FindingsError, PolicyError, VerificationError
from shoal.core.results import Finding
from shoal.core.wording import count_noun
from shoal.manifest import About
from shoal.methods.base import Method, refuse_method
from shoal.models.base import PopulationModel, TableModel
from shoal.policy.encoding import outline_problem
from shoal.policy.policy import Policy
from shoal.verify.result import Verification


def refuse_policy(policy: Policy) -> None:
    """Raise if no table could be published by the policy."""
    refuse_units(policy)
    if all(attribute.items is None for attribute in policy.attributes.values()):  # items become other attributes
        refuse_method(policy.method, outline_problem(policy))


def refuse_units(policy: Policy) -> None:
    """Refuse what cannot be promised about people, where one person may have many records (docs/adr/0006-people.md)."""
    if policy.units and policy.sample is not None and policy.sample.one_per is None:
        raise PolicyError(
            "sample: a share of the records is not a share of the people that the policy counts; take one of each "
            f"with sample: {{one_per: {next(iter(policy.units))}}}, or leave out the sample"
        )
    for key, column in policy.counted_units.items():
        reason = _why_not_counted(policy, column)
        if reason is not None:
            raise PolicyError(
                f"{key}: {reason}; or publish one record of each with sample: {{one_per: {key}}}, which every method "
                "and model can do"
            )


def _why_not_counted(policy: Policy, column: str) -> str | None:
    """Say why the people that a column names cannot be counted, and what to change; None if they can."""
    if not policy.method.counts_people:
        return (
            f"method {policy.method.name} adds up records and cannot count people; use mondrian, incognito, "
            "local-suppression or plain"
        )
    if column in policy.techniques:
        return (
            f"a token of {column!r} would show which records are of one person, and all classes of a person together "
            "hide fewer people than each class does; leave out its technique"
        )
    for name, technique in list_changed(policy.techniques).items():
        checked = technique.keeps_owners if policy.attributes[name].role == "quasi" else technique.determined
        if policy.attributes[name].role in ("quasi", "sensitive") and not checked:
            return f"it cannot be checked whose records are in a class after {technique.name} of {name!r}; leave it out"
    for model in policy.privacy:
        if isinstance(model, PopulationModel):
            return f"{model.name} compares with a table of records; leave one of the two out"
        if isinstance(model, TableModel):
            return f"{model.name} is a share of the records, not of the people; leave one of the two out"
    if any(attribute.items is not None for attribute in policy.attributes.values()):
        return "sets of items are protected by the record; leave one of the two out"
    return None


def refuse_unverified(verification: Verification) -> None:
    if not verification.verified or verification.unshown:
        raise VerificationError("the release was not published: " + "; ".join(verification.objections))


def refuse_open(findings: Sequence[Finding]) -> None:
    """Raise if a high finding is neither fixed nor accepted."""
    high = [one for one in findings if one.open and one.severity == "high"]
    if high:
        stated = "\n".join(f"{one.id}: {one.text} {one.fix}" for one in high)
        raise FindingsError(
            f"nothing was published: {count_noun(len(high), 'high finding is', 'high findings are')} open. Fix the "
            f"policy, or accept a finding in it with a reason.\n{stated}",
            findings,
        )


def refuse_other_release(
    policy: Policy,
    method: Method,
    manifest: Mapping[str, Any],
    verification: Verification,
    generalized: Mapping[str, int],
) -> None:
    """Raise unless the verified manifest agrees with the *policy* as the data holder wrote it.

    *method* is the policy's method or the choice of ``auto``; *generalized* counts records by sensitive attributes.
    """
    found = [*_compare_fields(policy, method, manifest), *_compare_caps(policy, manifest, generalized)]
    promised = Counter((one["model"], _freeze(one["parameters"]), one.get("counts")) for one in manifest["guarantees"])
    people: list[str | None] = [*policy.counted_units] or [None]
    models = [(model.name, _freeze(model.model_dump(mode="json", exclude_none=True))) for model in policy.privacy]
    asked = Counter((*model, counts) for model in models for counts in people)
    checked = [(one.model, one.counts) for one in verification.guarantees]
    if promised != asked or checked != [(o["model"], o.get("counts")) for o in manifest["guarantees"]]:
        found.insert(0, "privacy")
    if found:
        raise VerificationError(
            f"the release was not published: it differs from the policy in {', '.join(found)}. This is a fault of "
            "shoal or of an extension, not of the policy; please report it"
        )


def _freeze(value: object) -> object:
    """Return parameters of JSON in a form that can be counted; numbers are equal whatever their type."""
    if isinstance(value, Mapping):
        return frozenset((key, _freeze(one)) for key, one in value.items())
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def _list_roles(policy: Policy) -> dict[str, str]:
    """Return the published attributes with their roles; identifiers are published only if a technique changes them."""
    roles: dict[str, str] = {}
    for name, one in policy.attributes.items():
        if one.items is not None:
            roles |= dict.fromkeys(one.items.quasi_names(name), one.role)
            roles |= dict.fromkeys(one.items.sensitive_names(name), "sensitive")
        elif one.role != "identifier":
            roles[name] = one.role
        elif one.technique is not None:
            roles[name] = "insensitive"
    return roles


def _compare_fields(policy: Policy, method: Method, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of the policy that the manifest contradicts."""
    written: Mapping[str, Mapping[str, Any]] = manifest["attributes"]
    roles = _list_roles(policy)
    for name in roles.keys() | written.keys():
        if written.get(name, {}).get("role") != roles.get(name):
            yield f"the role of {name!r}"
    labelled = [one for one in written.values() if one["role"] == "sensitive" and "labels" in one]
    if any(one.get("defended", False) != method.defends_labels for one in labelled):
        yield "method.defend"
    techniques, changed = list_changed(policy.techniques), manifest.get("techniques", {})
    for name in techniques.keys() | changed.keys():
        if name not in techniques or name not in changed or not _agrees(techniques[name], changed[name]):
            yield f"the technique of {name!r}"
    sample = None if policy.sample is None else policy.sample.model_dump(mode="json", exclude_none=True)
    stated = {
        "method": (method.name, manifest["method"]),
        "the method's parameters": (method.model_dump(mode="json", exclude_none=True), manifest["method_parameters"]),
        "sample": (sample, manifest.get("sample")),
        "unit or household": (policy.units, manifest.get("people", {})),
        "missing": (
            {"policy": policy.missing, "tokens": list(policy.source.missing)},
            {key: entry for key, entry in manifest["missing"].items() if key != "dropped"},
        ),
        "source": (policy.source.reading, manifest.get("reading", {})),
        "release": (
            policy.release.model_dump(include=set(About.model_fields), exclude_none=True),
            manifest.get("about", {}),
        ),
    }
    yield from (key for key, (asked, found) in stated.items() if _freeze(asked) != _freeze(found))


def _agrees(technique: Technique, entry: Mapping[str, Any]) -> bool:
    """Whether an entry has the name and the plain parameters of a technique; other entries describe its result."""
    plain = {key: value for key, value in technique.public().items() if isinstance(value, int | float | str)}
    return entry.get("technique") == technique.name and not any(
        entry[key] != value for key, value in plain.items() if key in entry and isinstance(entry[key], type(value))
    )


def _compare_caps(policy: Policy, manifest: Mapping[str, Any], generalized: Mapping[str, int]) -> Iterator[str]:
    """Yield the limits of the policy that the release exceeds."""
    rows, withheld = manifest["rows"], manifest["withheld"]
    if withheld > Fraction(str(policy.max_withheld)) * (rows + withheld):
        yield "max_withheld"
    caps = {name: Fraction(str(share)) for name, share in policy.max_generalized.items()}
    if any(generalized.get(name, 0) > cap * rows for name, cap in caps.items()):
        yield "max_generalized"
