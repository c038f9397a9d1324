"""The table "What defence costs" of docs/sweep.md: ``python -m experiments.defence DATA docs``.

The sweep runs with and without defence on Adult, Nursery and generated stays. Seconds are processor time of the run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import shoal
from experiments.problems import nursery_table
from shoal.core.wording import percent
from shoal.datasets.hospital import hospital_policy, stays
from shoal.datasets.uci import adult, adult_policy, nursery

BEGIN, END = "<!-- defence: made by python -m experiments.defence -->", "<!-- defence ends -->"
SEED, N_STAYS = 7, 100_000
HEADS = ("table", "requirement", "um", "without", "NCP", "without", "pairs", "without", "revealed", "s", "without")
OTHERS = (
    ("simple l = 3", {"simple-l-diversity": {"l": 3}}),
    ("distinct l = 3", {"distinct-l-diversity": {"l": 3}}),
    ("entropy l = 3", {"entropy-l-diversity": {"l": 3}}),
)


def require(*pairs: tuple[float, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (tau,l) requirements with their names."""
    for tau, l in pairs:
        yield f"({tau:g}, {l})", {"tau-l-diversity": {"tau": tau, "l": l}}


def list_cases(data: Path) -> Iterator[tuple[str, pa.Table, dict[str, Any], str, dict[str, Any]]]:
    """Yield the tables with their policies, and each requirement with its name."""
    policy = adult_policy(privacy=[], folder=data)
    table = adult(data, columns=list(policy["attributes"]))
    for name, model in (*require((0.5, 3), (0.25, 6), (0.15, 9), (0.1, 13)), *OTHERS):
        yield "Adult", table, policy, name, model
    policy = {"attributes": nursery_table(data, None, np.random.default_rng(SEED)).attributes}
    table = nursery(data)
    for name, model in (*require((0.5, 3), (0.4, 3), (0.36, 3)), *OTHERS):
        yield "Nursery", table, policy, name, model
    policy = hospital_policy()
    table = pa.Table.from_batches(stays(N_STAYS, seed=SEED))
    for name, model in require((0.5, 3), (0.25, 6)):
        yield f"{N_STAYS:,} stays", table, policy, name, model


def measure(table: pa.Table, policy: dict[str, Any], model: dict[str, Any], *, defend: bool) -> tuple[str, ...]:
    """Return um, NCP, the score of pairs, the share of revealed people, and the seconds of a run."""
    method = {"sweep": {"defend": defend}}
    began = time.process_time()
    release = shoal.anonymize(table, {**policy, "privacy": [model], "method": method}, seed=SEED)
    seconds = time.process_time() - began
    pairs = next(one["release"] for one in release.evidence["marginals"] if one["size"] == 2)
    revealed = release.evidence["search"].get("people_revealed", 0) / table.num_rows
    figures = release.utility
    return f"{figures['um']:.3f}", f"{figures['ncp']:.3f}", f"{pairs:.0f}", percent(revealed), f"{seconds:.1f}"


def tabulate(data: Path) -> str:
    """Return the table."""
    lines = [f"| {' | '.join(HEADS)} |", "|---|---" + "|---:" * (len(HEADS) - 2) + "|"]
    for title, table, policy, name, model in list_cases(data):
        um, ncp, pairs, _, seconds = measure(table, policy, model, defend=True)
        plain = measure(table, policy, model, defend=False)
        cells = (title, name, um, plain[0], ncp, plain[1], pairs, plain[2], plain[3], seconds, plain[4])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(data: str, docs: str) -> None:
    """Write the table into docs/sweep.md."""
    page = Path(docs) / "sweep.md"
    text = page.read_text(encoding="utf-8")
    made = f"{BEGIN}\n\n{tabulate(Path(data))}\n\n{END}"
    page.write_text(f"{text.split(BEGIN)[0]}{made}{text.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
