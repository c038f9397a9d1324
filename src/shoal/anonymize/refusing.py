"""What is not published: policies that promise too much, and releases that the verifier does not accept."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.columns.base import list_changed
from shoal.core.errors import FindingsError, PolicyError, VerificationError
from shoal.core.results import Finding
from shoal.core.wording import count_noun
from shoal.models.base import PopulationModel, TableModel
from shoal.policy.policy import Policy
from shoal.verify.result import Verification


def refuse_units(policy: Policy) -> None:
    """Refuse what cannot be promised about people, where one person may have many records (docs/adr/0036-people.md)."""
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
        if policy.attributes[name].role in ("quasi", "sensitive") and not technique.keeps_owners:
            return f"nobody can check whose records are in a class after {technique.name} of {name!r}; leave it out"
    for model in policy.privacy:
        if isinstance(model, PopulationModel):
            return f"{model.name} compares with a table of records; leave one of the two out"
        if isinstance(model, TableModel):
            return f"{model.name} is a share of the records, not of the people; leave one of the two out"
    if any(attribute.items is not None for attribute in policy.attributes.values()):
        return "sets of items are protected by the record; leave one of the two out"
    return None


def refuse_unverified(verification: Verification) -> None:
    """Raise if the verifier does not agree."""
    if not verification.verified:
        raise VerificationError("the release was not published: " + "; ".join(verification.failures))


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
