"""What a release by an agency's plan publishes: rows with the number of their class, and the plan itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.agency.plan_file import AgreedPlan
from shoal.encoding import Encoding
from shoal.engines.local import CountedCells
from shoal.methods.base import AnyPlan
from shoal.plan import Plan
from shoal.policy import Policy
from shoal.publishing import GeneralizedPublication
from shoal.publishing.columns import CellColumn
from shoal.release import CLASS
from shoal.sources import Source

PLAN_FILE = "plan.json"


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
