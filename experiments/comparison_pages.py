"""The two comparisons of the documentation: ``python -m experiments.comparison_pages docs`` writes both pages anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.compare.compare import compare
from shoal.compare.result import Comparison
from shoal.compare.writing import markdown_page
from shoal.datasets.hospital import SEXES, hospital_policy, hospital_tables, stays
from shoal.datasets.hospital_rates import INSURANCES
from shoal.datasets.uci import adult, adult_policy
from shoal.release.release import write_text

SEED = 1
STAYS = 20_000
_MADE = "Written by `make comparison`; [how to read it](compare.md)."
_ADULT = (
    "The complete rows of Adult. Others may know age, workclass, education, marital status, race and sex; the "
    "occupation is sensitive. The policy asks for 10-anonymity and entropy 4-diversity, from which the techniques take "
    "their k and l. Adult has no identifiers; the number of the row serves as one, so that there is something to "
    "pseudonymise and to hash."
)
_DEMO = (
    f"{STAYS:,} stays of the [generated hospital data](demo-data.md). Others may know age, sex, postcode, day of "
    "admission, occupation and insurance; the diagnosis is sensitive, the cost is neither, the patient's number an "
    "identifier. The policy asks for 10-anonymity and entropy 4-diversity. All values are declared, as a "
    "differentially private table needs it."
)


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
    found = compare(people, policy, techniques="all", seed=SEED)
    _write(folder, "adult", "Techniques compared on Adult", _ADULT, found)
    generated = pa.Table.from_batches(list(stays(STAYS, seed=SEED)))
    found = compare(generated, demo_policy(), techniques="all", seed=SEED)
    _write(folder, "demo", "Techniques compared on the demo data", _DEMO, found)


def _write(folder: Path, name: str, title: str, about: str, found: Comparison) -> None:
    picture = folder / "figures" / f"comparison-{name}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.unlink(missing_ok=True)
    write_text(picture, found.frontier().standalone())
    text = folder / f"comparison-{name}.md"
    text.unlink(missing_ok=True)
    write_text(text, markdown_page(found, title, f"figures/{picture.name}", about, _MADE))


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
