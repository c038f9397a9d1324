"""What is not published: policies that promise too much, and releases that the verifier does not accept."""

from __future__ import annotations

from shoal.errors import PolicyError, VerificationError
from shoal.policy import Policy
from shoal.verify import Verification


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
