"""The form `synthetic`: rows without a person behind them; the manifest has no exact figures of the data."""

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
from shoal.release.publication import Engine, Publication, PublishedRows, describe_plan
from shoal.sources.base import Source
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.utility.analyses import measure_rows
from shoal.utility.base import Utility
from shoal.utility.rows import view_plan

_BATCH_ROWS = 1 << 20


_NOBODY = (
    "**No row is a person.** Rows were drawn at random from noisy counts of the original table. A row that resembles a "
    "person reveals no more about that person than the claim below allows. The number of rows is not the number of "
    "people."
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
    "Other columns are related only through these. Relations among more columns are lost, and rare values disappear in "
    "the noise: do not analyse either."
)
_CLAIM = (
    "This is a claim: no file can show that noise was drawn as declared. `shoal verify` checks that the parts of the "
    "account in `manifest.json` (`synthetic`) do not add up to more."
)
_RECORDS = (
    "It is about single records. If a person has several, their epsilons add up, so all of them together are protected "
    "less. The epsilons of several tables about the same people add up too."
)
_WEAKNESSES = (
    "It bounds the influence of one record, not general knowledge: a relation that holds for many people can be "
    "applied to any person. It assumes that random numbers were drawn as declared, which no file shows."
)
_TOGETHER = "The claim is about records. If a person has several, all of them together are protected less."
_DECLARED = (
    "The claim assumes that the possible values of each column were declared without looking at the original table."
)
_DRAWN = "Each row is a record of the original table, drawn at random, with generalized values."
_SAMPLED = (
    "This is a claim: no file can show that records were drawn at random and levels chosen without looking at the "
    "data. `shoal verify` checks that at least k rows share each combination of values, and that share and k suffice."
)
_RATE = "- Divide counts by the probability with which records were drawn; rare combinations are missing."
_SHARES = "- Use shares instead of counts: the number of rows is not the number of people."
_PAIRS = "- Cross-tables of columns that were counted together are exact up to the noise; others are less accurate."
_RARE = "- Small shares are mostly noise. Do not draw conclusions from a few rows."
_DRAFTED = (
    "these columns have ends like the ones that shoal init takes from the data: {columns}; the claim of differential "
    "privacy is true only if the ends were declared without looking at the data: choose them from general knowledge of "
    "each column, or ignore this warning if you did"
)
_SHOWN = 8  # sets of columns in a summary
_LARGEST = 20.0  # larger epsilons give almost no protection, so their factor is not stated


class Synthetic(Form):
    """Rows that were drawn from noisy counts."""

    name: ClassVar[str] = "synthetic"
    groups: ClassVar[str | None] = None
    of_people: ClassVar[bool] = False
    unlinkable: ClassVar[str | None] = "its rows are not records of people"
    claim_limits: ClassVar[tuple[str, ...]] = (_CLAIM, _DECLARED, _RECORDS)

    @classmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> SyntheticPublication:
        if not isinstance(plan, SyntheticPlan):
            raise TypeError(f"the form {cls.name} is made of a plan of drawn rows")
        columns = {
            domain.name: label_leaves(domain, policy.attributes[domain.name].role, codes)
            for domain, codes in zip(plan.domains, plan.codes, strict=True)
        }
        stated = describe_plan(policy, source, counted, encoding, plan) | {
            "n_rows": plan.n_rows,  # not the number of records
            "n_dropped": 0,  # the number of records with missing values is not disclosed
            "entries": {name: column.entry for name, column in columns.items()},
        }
        # `shoal init` drafts numbers with both ends open; it drafts no ends of dates, which are refused as undeclared
        taxonomies = {domain.name: policy.attributes[domain.name].taxonomy for domain in plan.domains}
        drafted = [
            name for name, one in taxonomies.items() if isinstance(one, IntervalsTaxonomy) and one.open == "both"
        ]
        if drafted:
            stated["warnings"] = (*plan.warnings, _DRAFTED.format(columns=", ".join(map(repr, drafted))))
        return SyntheticPublication(**stated, columns=columns)

    @property
    def class_columns(self) -> tuple[str, ...]:
        """Empty, because rows have no class."""
        return ()

    @property
    def cost(self) -> Cost | None:
        """Epsilon and delta of the policy, which bound the budget spent."""
        return Cost(self.account.epsilon, self.account.delta)

    @property
    def account(self) -> Account:

        if self.manifest.synthetic is None:
            raise InputError("the manifest has no account of the privacy budget; run `shoal verify` on the release")
        return self.manifest.synthetic

    def claims(self) -> list[Claim]:
        return [
            Claim(one.model, one.parameters, explain_claim(one.parameters), _WEAKNESSES) for one in self.manifest.claims
        ]

    def promises(self) -> list[str]:
        """Return the claims, each with its limits."""
        return [
            line
            for claim in self.claims()
            for line in (promise_line(*claim[:3]), *(text for one in self.claim_limits for text in ("", one)))
        ]

    def general_limits(self) -> list[str]:
        return [_TOGETHER, SEVERAL, TRUE_OF_MOST]

    def headline(self) -> str:
        manifest = self.manifest
        made = f"drawn with shoal {manifest.shoal_version} (method `{manifest.method}`)"
        return f"{count_noun(manifest.rows, 'row')}, {made}."

    def describe_rows(self) -> str:
        return _NOBODY

    def own_section(self) -> Section:
        sets = [f"- {' and '.join(map(code, one))}" for one in self.account.marginals]
        lines = [_KEPT, "", *sets, "", _LOST] if sets else [_ALONE]
        return Section("kept", "Relations that are kept", lines)

    def describe_values(self, name: str) -> str:
        del name
        return "drawn; see below"

    def describe_missing(self) -> str:
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
        sets, found = self.account.marginals, evidence["synthetic"]
        shown = "; ".join(" and ".join(one) for one in sets[:_SHOWN]) or "none"
        more = f"; and {len(sets) - _SHOWN} more" if len(sets) > _SHOWN else ""
        alone = _mean(found["attributes"].values())
        together = _mean(one["distance"] for one in found["pairs"])
        return [
            f"No row is a person. Counted together: {shown}{more}.",
            (
                f"Shares of values are off by {alone:.1%} on average, shares of pairs of values by {together:.1%}; "
                "these are figures for you alone."
            ),
        ]


class SafePub(Synthetic):
    """Generalized records, drawn at random."""

    name: ClassVar[str] = "safepub"
    unlinkable: ClassVar[str | None] = "its claim is independent of other releases, and their budgets add up"
    claim_limits: ClassVar[tuple[str, ...]] = (_SAMPLED, _RECORDS)

    def describe_rows(self) -> str:
        return _DRAWN

    def own_section(self) -> Section:
        drawn = self.account.sampled
        if drawn is None:
            raise InputError("the manifest has no entry on how records were drawn; run `shoal verify` on the release")
        text = (
            f"Each record was drawn with probability {drawn.share:.6g}, and published if at least {drawn.k} "
            "drawn records had the same published values in all columns."
        )
        return Section("drawn", "How rows were drawn", [text])

    def advice(self) -> list[str]:
        return [LABELS, _RATE]

    def summary(self, evidence: Mapping[str, Any]) -> list[str]:
        shown = f"{self.manifest.rows:,} of {evidence['synthetic']['records']:,} records are published"
        return [f"{shown}; these are figures for you alone.", *self.own_section().lines]


def explain_claim(parameters: Mapping[str, Any]) -> str:
    """Explain a claim of differential privacy.

    >>> explain_claim({"epsilon": 1.0, "delta": 0.0})
    'for any observer, no table is more than e^1 (about 2.7) times as likely with a record as without it'
    """
    epsilon, delta = parameters["epsilon"], parameters["delta"]
    factor = "" if epsilon > _LARGEST else f" (about {math.exp(epsilon):,.{1 if epsilon < 3 else 0}f})"
    but = f", but for a probability of {delta:g}" if delta else ""
    return (
        f"for any observer, no table is more than e^{epsilon:g}{factor} times as likely with a record as "
        f"without it{but}"
    )


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPublication(Publication):
    """Rows drawn from noisy counts; everything that is published follows from these counts and the policy."""

    counted: CountedCells
    encoding: Encoding
    plan: SyntheticPlan
    columns: Mapping[str, PublishedColumn]  # by attributes; numbers are leaves

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        return [[name for name in self.source.schema.names if name in self.columns]]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        parameters = {"epsilon": self.plan.epsilon, "delta": self.plan.delta}
        claims = [{"model": "differential-privacy", "parameters": parameters}]
        return {"claims": claims, "synthetic": self.plan.describe()}

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """The distances of the rows from the records: exact figures, which stay internal."""
        return {
            "randomness": "operating system; a seed repeats no differentially private table",
            "synthetic": distances(self.encoding.problem.cells.codes, self.encoding.problem.cells.counts, self.plan),
        }

    def find_leaves(self, place: int) -> IntArray:
        """Return no leaves, because no record is published."""
        del place
        return np.empty(0, dtype=np.int64)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return no guarantee, because no file can show the claims."""
        return ()

    def utility(self, *, expensive: bool = False) -> Utility:
        """Return the errors of analyses, which are exact and for the data holder only; no cheap measures."""
        problem = self.encoding.problem
        by_leaf = self.plan.sampled is None
        return measure_rows(problem, view_plan(problem, self.plan)) if expensive and by_leaf else {}

    def column_shares(self) -> dict[str, dict[str, float]]:
        """Return no shares, because drawn rows have no original values."""
        return {}

    def hiding(self) -> None:
        """Return None, because rows have no classes."""

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        return PublishedRows(self._batches(progress), synthetic=True)

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
    tree = domain.taxonomy
    hi = tree.hi[tree.node_at(domain.level)]
    ends = {leaf: (leaf, int(hi[leaf])) for leaf in kernels.occurring(codes).tolist()}
    leaves = sorted(ends, key=lambda leaf: tree.label(*ends[leaf], domain.level))
    label_of = np.full(domain.size, -1, dtype=np.int32)
    label_of[leaves] = np.arange(len(leaves), dtype=np.int32)
    labels = {tree.label(*ends[leaf], domain.level): tree.cover(*ends[leaf], domain.level) for leaf in leaves}
    entry = {"role": role, "kind": tree.scale.kind, **tree.scale.reading(), "labels": labels}
    return PublishedColumn(label_of, pa.array(list(labels), pa.string()), entry)
