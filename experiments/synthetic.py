"""How good differentially private tables are: distances of marginals, and what a classifier learns from their rows.

Tables are made of four fifths of the records. A classifier is trained on synthetic rows and tested on the last fifth.
Noise never follows from a seed: another run gives other figures, within the spread that is stated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bench.survey import WEIGHTS, survey

from experiments.figures import Report, format_csv, write_json, write_table
from shoal.core.arrays import BoolArray, CodeArray
from shoal.core.errors import UsageError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.datasets.uci import adult
from shoal.methods.synthetic import Synthetic
from shoal.methods.synthetic.synthesis import synthesize, total_variation
from shoal.plan.synthetic import Domain, Records, SyntheticPlan
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.builders.listed import FlatTaxonomy

BEGIN, END = "<!-- quality: made by python -m experiments synthetic -->", "<!-- quality ends -->"
EPSILONS, DELTA, REPEATS = (0.3, 1.0, 3.0, 10.0), 1e-6, 3
TRIPLES = 100
ADULT = (
    "age",
    "workclass",
    "education",
    "marital-status",
    "race",
    "sex",
    "native-country",
    "salary-class",
    "occupation",
)
TOO_FINE = ("industry", "income", "poverty")  # of the survey: hundreds of values


@dataclass(frozen=True, slots=True)
class People:
    """Records in codes, those that are kept back for the test, and what is to be predicted."""

    name: str
    domains: tuple[Domain, ...]
    records: tuple[CodeArray, ...]
    kept_back: tuple[CodeArray, ...]
    target: int
    positive: BoolArray  # (n_values,) of the target

    @classmethod
    def of(cls, name: str, table: pa.Table, target: str, positive: Sequence[str], rng: np.random.Generator) -> People:
        """Encode a table; ages are 0 to 99, and of the rest the values that occur count as declared."""
        domains = []
        for column in table.column_names:
            values = tuple(map(str, sorted(table[column].unique().to_pylist(), key=str)))
            builder = IntervalsTaxonomy(min=0, max=99) if column == "age" else FlatTaxonomy(values=values)
            domains.append(Domain(column, builder.build(pa.array([], pa.string()))))
        codes = [
            one.taxonomy.encode(pc.cast(table[one.name].combine_chunks(), pa.string())).astype(np.int32)
            for one in domains
        ]
        order = rng.permutation(len(table))
        test, train = np.split(order, [len(order) // 5])
        place = table.column_names.index(target)
        return cls(
            name,
            tuple(domains),
            tuple(column[train] for column in codes),
            tuple(column[test] for column in codes),
            place,
            np.isin(domains[place].taxonomy.leaf_labels, positive),
        )


@dataclass(frozen=True, slots=True)
class Quality:
    """One synthetic table: mean total variation distances, area under the curve, processor time."""

    table: str
    epsilon: float
    alone: float
    pairs: float
    triples: float
    auc: float
    counted: int  # pairs and triples
    spent: float  # share of epsilon
    seconds: float


def run_synthetic(folder: Path | None, *, quick: bool, seed: int, progress: Progress) -> list[Quality]:
    """Make tables for each epsilon; the *seed* only says which records are kept back."""
    rng = np.random.default_rng(seed)
    wide = survey().drop_columns([*WEIGHTS, *TOO_FINE])
    tables = [
        People.of("Adult", adult(folder, columns=list(ADULT)), "salary-class", [">50K"], rng),
        People.of("survey", wide, "income_decile", list("6789"), rng),
    ]
    epsilons, repeats = (EPSILONS[1:2], 1) if quick else (EPSILONS, REPEATS)
    found = []
    with progress.step("synthetic tables", len(tables) * len(epsilons) * repeats, "tables") as step:
        for people in tables:
            for epsilon in epsilons:
                for _ in range(repeats):
                    found.append(measure_quality(people, epsilon))
                    step.advance(1)
    return found


def measure_quality(people: People, epsilon: float) -> Quality:
    """Make one table and measure it."""
    begin = time.process_time()
    plan = synthesize(people.records, people.domains, Synthetic(epsilon=epsilon, delta=DELTA), Chance.of(None))
    seconds = time.process_time() - begin
    places = range(len(people.domains))
    triples = list(combinations(places, 3))
    picked = np.random.default_rng(0).choice(len(triples), min(TRIPLES, len(triples)), replace=False)
    return Quality(
        people.name,
        epsilon,
        _distance(people, plan, [(place,) for place in places]),
        _distance(people, plan, list(combinations(places, 2))),
        _distance(people, plan, [triples[number] for number in picked]),
        _learn(people, plan),
        len(plan.marginals),
        plan.spent["epsilon"] / epsilon,
        seconds,
    )


def _distance(people: People, plan: SyntheticPlan, sets: Sequence[tuple[int, ...]]) -> float:
    records = Records(people.records, np.ones(len(people.records[0]), dtype=np.int64), people.domains)
    rows = Records(plan.codes, np.ones(plan.n_rows, dtype=np.int64), people.domains)
    return float(np.mean([total_variation(records.count(one), rows.count(one)) for one in sets]))


def _learn(people: People, plan: SyntheticPlan) -> float:
    """Return the area under the curve of gradient boosting, trained on rows and tested on what was kept back."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    def features(codes: Sequence[CodeArray]) -> Any:
        return np.stack([column for place, column in enumerate(codes) if place != people.target], axis=1)

    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(features(plan.codes), people.positive[plan.codes[people.target]])
    shown = model.predict_proba(features(people.kept_back))[:, 1]
    return float(roc_auc_score(people.positive[people.kept_back[people.target]], shown))


@dataclass(frozen=True, slots=True)
class Section(Report):
    """A report whose page is a section of the page of synthetic tables."""

    def write_docs(self, docs: Path, small: Mapping[str, Any]) -> Path:  # noqa: ARG002
        """Replace the section between its two marks, and the figures that it is made of."""
        path = docs / "synthetic.md"
        text = path.read_text(encoding="utf-8")
        if BEGIN not in text or END not in text:
            raise UsageError(f"{path} has no place for the table; put the lines {BEGIN!r} and {END!r} into it")
        write_json(docs / "figures" / f"{self.name}.json", self.document)
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        path.write_text(f"{before}{BEGIN}\n\n{self.page}\n{END}{after}", encoding="utf-8")
        return path


def make_report(found: Sequence[Quality]) -> Section:
    """Write down what was found: mean and standard deviation over the tables of each epsilon."""
    heads = ["table", "epsilon", "attributes", "pairs", "triples", "AUC", "counted together", "processor time"]
    rows = []
    for name, epsilon in dict.fromkeys((one.table, one.epsilon) for one in found):
        some = [one for one in found if (one.table, one.epsilon) == (name, epsilon)]
        figures = [_spread([getattr(one, field) for one in some]) for field in ("alone", "pairs", "triples", "auc")]
        counted = np.mean([one.counted for one in some])
        rows.append([name, f"{epsilon:g}", *figures, f"{counted:.0f}", f"{np.mean([s.seconds for s in some]):.0f} s"])
    page = "\n".join(write_table(heads, rows))
    whole = format_csv([list(Quality.__dataclass_fields__), *(list(asdict(one).values()) for one in found)])
    summary = [f"{row[0]}, epsilon {row[1]}: pairs {row[3]}, AUC {row[5]}" for row in rows]
    return Section("synthetic", page, {"tables": [asdict(one) for one in found]}, summary, (), whole)


def _spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation, which one value has not.

    >>> _spread([0.1, 0.2]), _spread([0.1])
    ('0.1500 ± 0.0707', '0.1000')
    """
    return f"{np.mean(values):.4f}" + (f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else "")
