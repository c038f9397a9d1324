"""The form `synthetic`: nobody's records, and a manifest that tells nothing which was looked up without noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.core.wording import code, count_noun, promise_line
from shoal.manifest import Account
from shoal.methods.base import AnyPlan
from shoal.methods.synthetic.synthesis import distances
from shoal.plan.counted import CountedCells
from shoal.plan.synthetic import Domain, SyntheticPlan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.figures import Guarantee
from shoal.release.forms.base import LABELS, SEVERAL, TRUE_OF_MOST, Claim, Cost, Form, Section, quote
from shoal.release.publication import Engine, PlannedPublication, PublishedRows, describe_plan
from shoal.sources.base import Source
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.utility.analyses import measure_rows
from shoal.utility.base import Utility
from shoal.utility.rows import view_plan

_BATCH_ROWS = 1 << 20


_NOBODY = (
    "**No row is a person.** Rows were drawn at random from counts of the original table, to which noise was added "
    "first. Whoever is looked for will not be found: that a row is there says no more about anybody than is claimed "
    "below. The number of rows is not that of people."
)
_KEPT = (
    "Up to the noise, the table keeps how often each value of a column occurs, and how often values of these columns "
    "occur together:"
)
_ALONE = (
    "Up to the noise, the table keeps how often each value of a column occurs. Columns are independent of each other: "
    "no columns were counted together."
)
_LOST = (
    "Other columns are related only through these. What depends on more columns at once is not kept, and rare values "
    "are lost in the noise: do not look for either."
)
_CLAIM = (
    "This is a claim: no file can show that noise was drawn as declared. What files show, and `shoal verify` checks, "
    "is that the parts of the account in `manifest.json` (`synthetic`) add up to no more."
)
_RECORDS = (
    "It is about single records. Of a person with several of them each one is protected, and all together less: their "
    "epsilons add up. So do those of several tables that are drawn from the same people."
)
_WEAKNESSES = (
    "It bounds what one record changes, not what is true of many: whatever the table teaches about people in general "
    "can be concluded about anybody. It rests on chance as declared, which no file shows."
)
_TOGETHER = "The claim is about records. Of a person with several of them, all together are protected less."
_DECLARED = (
    "The claim presumes that the values each column may have were declared without looking at the original table."
)
_DRAWN = "Each row is a record of the original table, drawn at random, with generalized values."
_SAMPLED = (
    "This is a claim: no file can show that records were drawn at random, and levels chosen without looking at the "
    "data. What files show, and `shoal verify` checks, is that at least k rows share each combination of values, and "
    "that share and k are enough."
)
_RATE = "- Divide counts by the probability with which records were drawn; rare combinations are missing."
_SHARES = "- Use shares, not counts: the number of rows is not that of people."
_PAIRS = "- Cross-tables of columns that were counted together are right up to the noise; others are less so."
_RARE = "- Small shares are mostly noise. A finding that rests on a few rows is none."
_DRAFTED = (
    "the ends of what these columns may hold are like those that shoal init takes from the data: {columns}; the claim "
    "of differential privacy is true only if they were declared without looking at the data: choose them from what is "
    "known of each column (if you did, nothing is wrong)"
)
_SHOWN = 8  # sets of columns in a summary
_LARGEST = 20.0  # epsilons beyond promise next to nothing, and their factor says nothing to people


class Synthetic(Form):
    """Rows that were drawn from noisy counts, and are nobody's."""

    name: ClassVar[str] = "synthetic"
    groups: ClassVar[str | None] = None
    of_people: ClassVar[bool] = False
    unlinkable: ClassVar[str | None] = "its rows are nobody's"
    claim_limits: ClassVar[tuple[str, ...]] = (_CLAIM, _DECLARED, _RECORDS)

    @classmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> SyntheticPublication:
        """Write down the labels of all columns."""
        if not isinstance(plan, SyntheticPlan):
            raise TypeError(f"the form {cls.name} is made of a plan of drawn rows")
        columns = {
            domain.name: label_leaves(domain, policy.attributes[domain.name].role, codes)
            for domain, codes in zip(plan.domains, plan.codes, strict=True)
        }
        stated = describe_plan(policy, source, counted, encoding, plan) | {
            "n_rows": plan.n_rows,  # which is not the number of records
            "n_dropped": 0,  # how many records lack a value is not stated
            "entries": {name: column.entry for name, column in columns.items()},
        }
        drafted = find_drafted(policy, plan.domains)
        if drafted:
            stated["warnings"] = (*plan.warnings, _DRAFTED.format(columns=", ".join(map(repr, drafted))))
        return SyntheticPublication(**stated, columns=columns)

    @property
    def class_columns(self) -> tuple[str, ...]:
        """None: no row has a class."""
        return ()

    @property
    def cost(self) -> Cost | None:
        """Epsilon and delta, as they were asked for; what was spent is not more."""
        return Cost(self.account.epsilon, self.account.delta)

    @property
    def account(self) -> Account:
        """What the table is said to have cost."""
        if self.manifest.synthetic is None:
            raise InputError("the manifest does not say what the table cost; run `shoal verify` on the release")
        return self.manifest.synthetic

    def claims(self) -> list[Claim]:
        return [
            Claim(one.model, one.parameters, explain_claim(one.parameters), _WEAKNESSES) for one in self.manifest.claims
        ]

    def promises(self) -> list[str]:
        """Return what is claimed, and that no file can show it."""
        return [
            line
            for claim in self.claims()
            for line in (promise_line(*claim[:3]), *(text for one in self.claim_limits for text in ("", one)))
        ]

    def general_limits(self) -> list[str]:
        """Return what the claim does not cover."""
        return [_TOGETHER, SEVERAL, TRUE_OF_MOST]

    def headline(self) -> str:
        """Say how many rows were drawn."""
        manifest = self.manifest
        made = f"drawn with shoal {manifest.shoal_version} (method `{manifest.method}`)"
        return f"{count_noun(manifest.rows, 'row')}, {made}."

    def describe_rows(self) -> str:
        return _NOBODY

    def own_section(self) -> Section:
        """Return what the table keeps of the original one, and what it does not."""
        sets = [f"- {' and '.join(map(code, one))}" for one in self.account.marginals]
        lines = [_KEPT, "", *sets, "", _LOST] if sets else [_ALONE]
        return Section("kept", "What is kept", lines)

    def describe_values(self, name: str) -> str:
        """Say that values were drawn."""
        del name
        return "drawn; see below"

    def describe_missing(self) -> str:
        """Say how a missing value is published."""
        if self.manifest.missing.policy == "drop":
            return super().describe_missing()
        return "A missing value is published as `missing`."

    def advice(self) -> list[str]:
        return [_SHARES, _PAIRS, _RARE]

    def _count_example(self) -> str:
        pairs = [one for one in self.account.marginals if len(one) == 2]
        if not pairs:
            first = quote(next(iter(self.manifest.attributes)))
            return f"print(data[{first}].value_counts(normalize=True).round(2))\n"
        first, second = map(quote, pairs[0])
        return f'print(pd.crosstab(data[{first}], data[{second}], normalize="index").round(2))\n'

    def summary(self, evidence: Mapping[str, Any]) -> list[str]:
        """Say how far the rows are from the records."""
        sets, found = self.account.marginals, evidence["synthetic"]
        shown = "; ".join(" and ".join(one) for one in sets[:_SHOWN]) or "none"
        more = f"; and {len(sets) - _SHOWN} more" if len(sets) > _SHOWN else ""
        alone = _mean(found["attributes"].values())
        together = _mean(one["distance"] for one in found["pairs"])
        return [
            f"No row is a person. Counted together: {shown}{more}.",
            (
                f"Shares of values are off by {alone:.1%} on average, those of pairs of values by {together:.1%}; "
                "these are figures for you alone."
            ),
        ]


class SafePub(Synthetic):
    """Generalized records, drawn at random."""

    name: ClassVar[str] = "safepub"
    unlinkable: ClassVar[str | None] = "its claim holds whatever else is known, and what it costs adds up"
    claim_limits: ClassVar[tuple[str, ...]] = (_SAMPLED, _RECORDS)

    def describe_rows(self) -> str:
        return _DRAWN

    def own_section(self) -> Section:
        """Return how records were drawn."""
        drawn = self.account.sampled
        if drawn is None:
            raise InputError("the manifest does not say how records were drawn; run `shoal verify` on the release")
        text = (
            f"Each record was drawn with probability {drawn.share:.6g}, and published if at least {drawn.k} "
            "drawn records had the same published values in all columns."
        )
        return Section("drawn", "How rows were drawn", [text])

    def advice(self) -> list[str]:
        """Return what can be asked of a sample of labels."""
        return [LABELS, _RATE]

    def summary(self, evidence: Mapping[str, Any]) -> list[str]:
        """Say how many records are published."""
        shown = f"{self.manifest.rows:,} of {evidence['synthetic']['records']:,} records are published"
        return [f"{shown}; these are figures for you alone.", *self.own_section().lines]


def find_drafted(policy: Policy, domains: Iterable[Domain]) -> list[str]:
    """Return the columns of numbers that are open at both ends, which is how `shoal init` marks ends from the data.

    Of dates it writes no ends, so that they are refused as not declared; a policy has no surer mark.
    """
    taxonomies = {domain.name: policy.attributes[domain.name].taxonomy for domain in domains}
    return [name for name, one in taxonomies.items() if isinstance(one, IntervalsTaxonomy) and one.open == "both"]


def explain_claim(parameters: Mapping[str, Any]) -> str:
    """Say what a claim of differential privacy means.

    >>> explain_claim({"epsilon": 1.0, "delta": 0.0})
    'whatever somebody knows, no table is more than e^1 (about 2.7) times as likely with a record as without it'
    """
    epsilon, delta = parameters["epsilon"], parameters["delta"]
    factor = "" if epsilon > _LARGEST else f" (about {math.exp(epsilon):,.{1 if epsilon < 3 else 0}f})"
    but = f", but for a probability of {delta:g}" if delta else ""
    return (
        f"whatever somebody knows, no table is more than e^{epsilon:g}{factor} times as likely with a record as "
        f"without it{but}"
    )


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPublication(PlannedPublication):
    """Rows drawn from noisy counts: whatever is published of them follows from the noisy counts and the policy."""

    plan: SyntheticPlan
    columns: Mapping[str, PublishedColumn]  # by attributes; numbers are leaves

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        return [[name for name in self.source.schema.names if name in self.columns]]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        """What is claimed, and the account."""
        parameters = {"epsilon": self.plan.epsilon, "delta": self.plan.delta}
        claims = [{"model": "differential-privacy", "parameters": parameters}]
        return {"claims": claims, "synthetic": self.plan.describe()}

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """How far the rows are from the records: exact figures, which stay internal."""
        return {
            "randomness": "operating system; a seed repeats no differentially private table",
            "synthetic": distances(self.encoding.problem.cells.codes, self.encoding.problem.cells.counts, self.plan),
        }

    def find_cells(self) -> IntArray:
        """Return none: no record is published."""
        return np.empty(0, dtype=np.int64)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return none: no file can show what is claimed."""
        return ()

    def utility(self, *, expensive: bool = False) -> Utility:
        """Return what analysts find in the rows, for the data holder alone; else nothing: it would be without noise."""
        problem = self.encoding.problem
        by_leaf = self.plan.sampled is None  # what analyses of labels would take
        return measure_rows(problem, view_plan(problem, self.plan)) if expensive and by_leaf else {}

    def column_shares(self) -> dict[str, dict[str, float]]:
        """Return none: rows that were drawn have no original values."""
        return {}

    def hiding(self) -> None:
        """Return nothing: no class of rows hides a person."""

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        return PublishedRows(self._batches(progress), nobodys=True)

    def _batches(self, progress: Progress) -> Iterator[pa.RecordBatch]:
        codes = {domain.name: codes for domain, codes in zip(self.plan.domains, self.plan.codes, strict=True)}
        names = self.column_names
        with progress.step("writing", self.n_rows) as step:
            for start in range(0, self.n_rows, _BATCH_ROWS):
                stop = min(start + _BATCH_ROWS, self.n_rows)
                arrays = [self.columns[name].take(codes[name][start:stop]) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
                step.advance(stop - start)


def label_leaves(domain: Domain, role: str, codes: CodeArray) -> PublishedColumn:
    """Label the leaves that rows have, or the nodes that begin with them."""
    tree = domain.taxonomy
    hi = tree.hi[tree.node_at(domain.level)]
    ends = {leaf: (leaf, int(hi[leaf])) for leaf in kernels.occurring(codes).tolist()}
    leaves = sorted(ends, key=lambda leaf: tree.label(*ends[leaf], domain.level))
    label_of = np.full(domain.size, -1, dtype=np.int32)
    label_of[leaves] = np.arange(len(leaves), dtype=np.int32)
    labels = {tree.label(*ends[leaf], domain.level): tree.cover(*ends[leaf], domain.level) for leaf in leaves}
    entry = {"role": role, "kind": tree.scale.kind, **tree.scale.reading(), "labels": labels}
    return PublishedColumn(label_of, pa.array(list(labels), pa.string()), entry)
