"""What is not published: policies that promise too much, and releases that the verifier does not accept."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.errors import FindingsError, PolicyError, VerificationError
from shoal.findings import Finding
from shoal.policy import Policy
from shoal.verify import Verification
from shoal.wording import counted_text


def refuse_units(policy: Policy) -> None:
    """Refuse to promise anything about persons: methods and the verifier count records."""
    for key, column in (("unit", policy.unit), ("household", policy.household)):
        if column is not None:
            raise PolicyError(
                f"{key}: methods count records, not what column {column!r} names, and a class of k records may be of "
                f"fewer people; shoal audit counts them. Take {key!r} out of the policy and publish one record of each "
                "person, or ask for more records a class (docs/risk.md says how many)"
            )


def refuse_changed(policy: Policy) -> None:
    """Refuse to enter a release that says nothing of the values as they were: linking would prove nothing."""
    changes = ["sample"] if policy.sample is not None else []
    changes += [f"the technique of {name!r}" for name in policy.techniques]
    changes += [] if policy.method.publishes in ("classes", "buckets") else [f"method {policy.method.name}"]
    if changes:
        raise PolicyError(
            f"the ledger links releases by the values that their labels cover, and under {changes[0]} they cover other "
            "values than people have; take it out of the policy, or publish without the ledger"
        )


def refuse_unverified(verification: Verification) -> None:
    """Raise if the verifier does not agree."""
    if not verification.verified:
        raise VerificationError("the release was not published: " + "; ".join(verification.failures))


def refuse_open(findings: Sequence[Finding]) -> None:
    """Raise if a high finding is neither fixed nor accepted."""
    high = [one for one in findings if one.open and one.severity == "high"]
    if high:
        told = "\n".join(f"{one.id}: {one.text} {one.fix}" for one in high)
        raise FindingsError(
            f"nothing was published: {counted_text(len(high), 'high finding')} open. Fix the policy, or accept a "
            f"finding in it with a reason.\n{told}",
            findings,
        )
