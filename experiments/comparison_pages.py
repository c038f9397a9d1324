"""The comparisons of all techniques: ``python -m experiments.comparison_pages docs`` writes their pages again.

The whole tables go to experiments/results, their summary to docs/comparison.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from experiments.figures import write_table
from shoal.compare.compare import compare
from shoal.compare.result import HEADS, RISKS, Comparison, share_text
from shoal.compare.writing import markdown_page
from shoal.core.wording import write_kept
from shoal.datasets.hospital import INSURANCES, SEXES, hospital_policy, hospital_tables, stays
from shoal.datasets.uci import adult, adult_policy
from shoal.release.release import write_text

SEED = 1
STAYS = 20_000
_MADE = "Written by `make comparison`; [how to read it](../../docs/compare.md)."
_ADULT = (
    "The complete rows of Adult. Others may know age, workclass, education, marital status, race and sex; the "
    "occupation is sensitive. The policy asks for 10-anonymity and entropy 4-diversity, from which the techniques take "
    "their k and l. Adult has no identifiers; the number of the row serves as one, so that there is something to "
    "pseudonymise and to hash."
)
_DEMO = (
    f"{STAYS:,} stays of the [generated hospital data](../../docs/demo-data.md). Others may know age, sex, postcode, "
    "day of admission, occupation and insurance; the diagnosis is sensitive, the cost is neither, the patient's number "
    "an identifier. The policy asks for 10-anonymity and entropy 4-diversity. All values are declared, as a "
    "differentially private table needs it."
)


SUMMARY = """# Techniques compared on two tables

This page shows the remaining risk and the utility of every technique that `shoal compare
--techniques all` tries. A risk is the share of the guesses that chance would miss and that an
attack gets right. *Kept* is how close tables of three columns are to the source.
[Comparing](compare.md) explains both, and `make comparison` measures them again.

* **Adult**: six quasi-identifiers, and occupation is sensitive. [All figures with their
  intervals](../experiments/results/comparison-adult.md).
* **Demo data**: 20,000 [generated stays](demo-data.md) with six quasi-identifiers. The diagnosis is
  sensitive, and the cost, which is published, identifies nearly every stay. [All
  figures](../experiments/results/comparison-demo.md).

The policy requires 10-anonymity and entropy 4-diversity, which give the techniques their k and l. A
fifth of the records is the control group.

{table}

A dash means that the technique does not apply to the table.

![Risk and utility on Adult](figures/comparison-adult.svg)

![Risk and utility on the demo data](figures/comparison-demo.svg)
"""


def demo_policy() -> dict[str, Any]:
    """Return the policy of the generated stays with every value declared."""
    policy = hospital_policy()
    regions: dict[str, list[str]] = {}
    for postcode in hospital_tables().postcodes:
        regions.setdefault(f"{postcode[:2]}***", []).append(postcode)
    declared = {
        "sex": {"flat": list(SEXES)},
        "postcode": {"tree": {"*": regions}},
        "insurance": {"flat": list(INSURANCES)},
    }
    for name, taxonomy in declared.items():
        policy["attributes"][name]["taxonomy"] = taxonomy
    return policy


def write_pages(folder: Path, data: Path | None = None) -> None:
    """Compare all techniques on Adult and on generated stays, and write the pages and their pictures into *folder*."""
    policy = adult_policy(folder=data)
    people = adult(data, columns=list(policy["attributes"]))
    people = people.append_column("person", pa.array(range(people.num_rows)))
    policy["attributes"]["person"] = {"role": "identifier"}
    on_adult = compare(people, policy, techniques="all", seed=SEED)
    generated = pa.Table.from_batches(list(stays(STAYS, seed=SEED)))
    on_demo = compare(generated, demo_policy(), techniques="all", seed=SEED)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    _write(folder, "adult", "Techniques compared on Adult", _ADULT, on_adult)
    _write(folder, "demo", "Techniques compared on the demo data", _DEMO, on_demo)
    (folder / "comparison.md").write_text(write_summary([on_adult, on_demo]), encoding="utf-8")


def write_summary(found: Sequence[Comparison]) -> str:
    """Return the page of the documentation: for every technique the measured risks and the kept share on each table."""
    cells: dict[str, list[list[str]]] = {}
    for place, comparison in enumerate(found):
        for label, row in zip(comparison.labels, comparison.rows, strict=True):
            if row.reason is None:
                trials = [row.trials(risk) for risk in RISKS]
                risks = ["-" if one is None else share_text(one.risk.value) for one in trials]
                kept = "-" if row.kept is None else write_kept(row.kept.release)
                cells.setdefault(label, [["-"] * (len(RISKS) + 1) for _ in found])[place] = [*risks, kept]
    heads = ["technique", *(f"{name}: {head}" for name in ("Adult", "demo") for head in (*HEADS.values(), "kept"))]
    table = write_table(heads, [[label, *chain.from_iterable(own)] for label, own in cells.items()])
    return SUMMARY.format(table="\n".join(table).rstrip())


def _write(folder: Path, name: str, title: str, about: str, found: Comparison) -> None:
    picture = folder / "figures" / f"comparison-{name}.svg"
    picture.unlink(missing_ok=True)
    write_text(picture, found.frontier().standalone())
    text = folder.parent / "experiments" / "results" / f"comparison-{name}.md"
    text.parent.mkdir(parents=True, exist_ok=True)
    text.unlink(missing_ok=True)
    write_text(text, markdown_page(found, title, f"../../docs/figures/{picture.name}", about, _MADE))


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
