"""An owner's release by the agency's plan: its classes, its number of records, its promise, or nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shoal.agency.applying.agreed import AgreedClasses, promised
from shoal.agency.applying.domain import AgreedValues, refuse_outside
from shoal.agency.applying.publication import AgreedPublishing
from shoal.agency.plan_file import AgreedPlan, plan_bytes, plan_of
from shoal.anonymizing import Format, Run, same_format
from shoal.errors import InputError, did_you_mean
from shoal.ledger.options import Ledgered, ledger_options
from shoal.policy import AttributePolicy, Policy, Role
from shoal.progress import Progress, Silent
from shoal.release import CLASS, Release
from shoal.sources import Source, SourceOptions, open_source


def apply_plan(
    plan: str | Path,
    data: object,
    out: str | Path,
    *,
    format: Format | None = None,  # noqa: A002  the word that users know
    seed: int | None = None,
    progress: Progress | None = None,
    ledger: Ledgered = None,
) -> Release:
    """Publish a table by an agency's plan so that every class keeps what the plan promises, and prove it.

    Values are compared with those of the plan as texts: 34 is "34", whatever type the column has. Columns that the
    plan does not know are left out (``evidence["left_out"]``). Values and combinations outside the plan are an
    ``InputError``; too few records, and classes that do not keep the promise, an ``UnreachableError``. Nothing is
    written then. A *ledger* is as in :func:`shoal.anonymize`.
    """
    path = Path(plan)
    content = plan_bytes(path)
    agreed = plan_of(content, path.name)
    source = open_source(data)
    left_out = _left_out(agreed, source, path.name)
    run = Run.start(
        source,
        agreed_policy(agreed, left_out),
        out,
        format or same_format(data),
        seed,
        "quick",
        progress or Silent(),
        admit=partial(refuse_outside, agreed, name=source.name),
        publish=AgreedPublishing(agreed, content, left_out),
        ledger=ledger_options(ledger),
    )
    return run.finish(data)


def agreed_policy(agreed: AgreedPlan, left_out: tuple[str, ...] = ()) -> Policy:
    """Return the policy that a plan stands for; other columns are treated as identifiers, which nobody publishes."""

    def attribute(role: Role, values: tuple[str, ...]) -> AttributePolicy:
        return AttributePolicy(role, AgreedValues(values=values))

    quasi = {name: attribute("quasi", values) for name, values in zip(agreed.quasi, agreed.quasi_values, strict=True)}
    return Policy(
        attributes={
            **quasi,
            agreed.sensitive: attribute("sensitive", agreed.sensitive_values),
            **{name: AttributePolicy("identifier") for name in left_out},
        },
        privacy=(promised(agreed),),
        method=AgreedClasses(agreed=agreed),
        missing="category",
        max_withheld=0.0,
        source=SourceOptions(),
        document={"agreed": {"digest": agreed.digest, **agreed.promise.document(), "delta": agreed.delta}},
        folder=Path(),
    )


def _left_out(agreed: AgreedPlan, source: Source, plan: str) -> tuple[str, ...]:
    """Return the columns that the plan does not know; raise if the source lacks one that it has."""
    names, columns = (*agreed.quasi, agreed.sensitive), source.schema.names
    if CLASS in names:
        raise InputError(
            f"{plan} has an attribute {CLASS!r}, which is what the column of class numbers is called; ask the agency "
            "to rename it"
        )
    absent = [f"column {name!r}{did_you_mean(name, columns)}" for name in names if name not in columns]
    if absent:
        raise InputError(f"{source.name} lacks columns of the plan: {', '.join(absent)}; nothing was published")
    return tuple(name for name in columns if name not in names)
