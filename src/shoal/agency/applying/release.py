"""An owner's release by the agency's plan: its classes, its number of records, its promise, or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.agency.applying.agreed import AgreedClasses, promised
from shoal.agency.applying.domain import AgreedValues, refuse_outside
from shoal.agency.plan_file import AgreedPlan, plan_bytes, plan_of
from shoal.anonymize import Format, Run, same_format
from shoal.core.errors import InputError, did_you_mean
from shoal.core.progress import Progress, Silent
from shoal.engines.local import CountedCells
from shoal.linking.ledger.options import Ledgered, ledger_options
from shoal.methods.base import AnyPlan
from shoal.plan.plan import Plan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import AttributePolicy, Policy, Role
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.publishing.columns import CellColumn
from shoal.release.release import CLASS, Release
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.sources.options import SourceOptions

PLAN_FILE = "plan.json"


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


@dataclass(frozen=True, slots=True, eq=False)
class AgreedPublication(GeneralizedPublication):
    """Every row is a record: the number of its class in the plan, the hull of that class, and its sensitive value."""

    agreed: AgreedPlan
    plan_file: bytes
    left_out: tuple[str, ...]  # columns that the plan does not know

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """The attributes of the plan in its order, whatever order and other columns the source has."""
        return [[*self.agreed.quasi, self.agreed.sensitive]]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        """Which plan it is."""
        return {
            "agreed": {
                "file": PLAN_FILE,
                "sha256": hashlib.sha256(self.plan_file).hexdigest(),
                "digest": self.agreed.digest,
                "classes": self.agreed.classes,
            }
        }

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """How many records the plan asks for, and which columns were left out."""
        return {"records_needed": self.agreed.records, "left_out": list(self.left_out)}

    @property
    def files(self) -> Mapping[str, bytes]:
        """The plan, byte for byte."""
        return {PLAN_FILE: self.plan_file}

    def _published(self, heap: pa.Table, sensitive: Sequence[CellColumn], carried: Sequence[str]) -> pa.RecordBatch:
        batch = GeneralizedPublication._published(self, heap, sensitive, carried)  # noqa: SLF001 - slots forbid super()
        number = heap.column(0).combine_chunks().to_numpy() + 1
        return pa.RecordBatch.from_arrays([pa.array(number, pa.int32()), *batch.columns], [CLASS, *batch.schema.names])


@dataclass(frozen=True, slots=True, eq=False)
class AgreedPublishing:
    """Makes the publication of a plan, once the records have found their classes."""

    agreed: AgreedPlan
    plan_file: bytes
    left_out: tuple[str, ...]

    def __call__(
        self, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> AgreedPublication:
        """Prepare what is published."""
        if not isinstance(plan, Plan):
            raise TypeError("a plan of an agency has classes, and nothing else")
        common = GeneralizedPublication.of(policy, source, counted, encoding, plan)
        return AgreedPublication(
            policy,
            source,
            counted,
            encoding,
            plan,
            common.columns,
            common.sensitive_columns,
            self.agreed,
            self.plan_file,
            self.left_out,
        )
