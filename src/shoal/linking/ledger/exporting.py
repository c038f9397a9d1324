"""A ledger for auditors: entries, guarantees, floors, evaluations and digests, and no rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from shoal.core.errors import UsageError
from shoal.core.wording import parameters_text
from shoal.linking.ledger.book import Ledger
from shoal.linking.ledger.checking import Standing, remaining, standing
from shoal.linking.ledger.records import Entry, Population
from shoal.release.release import write_text


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON has it, without the folder that it was written to."""
    return {
        "number": entry.number,
        "at": entry.at,
        "population": entry.population,
        "recipient": entry.recipient,
        "status": entry.status,
        "settled": entry.settled,
        "reason": entry.reason,
        "origin": entry.origin,
        "method": entry.method,
        "guarantees": [dict(each) for each in entry.guarantees],
        "sensitive": list(entry.sensitive),
        "rows": entry.rows,
        "files": {name: {"bytes": file.size, "sha256": file.sha256} for name, file in entry.files.items()},
        "shoal_version": entry.version,
        "seal": entry.seal,
    }


def overview(ledger: Ledger, population: str | None = None) -> dict[str, Any]:
    """Return what `shoal ledger show` tells: populations, and entries with the least that is left with the others."""
    populations = ledger.populations() if population is None else {population: ledger.known(population)}
    kept: Standing = standing(ledger.evaluations(population))
    entries = ledger.entries(population)
    counting = {entry.number for entry in entries if entry.counts}
    return {
        "populations": [_population(each) for each in populations.values()],
        "releases": [
            {
                **entry_document(entry),
                "l": remaining(entry, kept, counting) if entry.counts else None,
                "floor": populations[entry.population].floor,
            }
            for entry in entries
        ],
    }


def export(path: Path, output: Path) -> dict[str, int]:
    """Write a ledger to a new file, .json with everything or .csv with a line for each entry; return what it has."""
    if output.suffix not in (".json", ".csv"):
        raise UsageError(f"{output.name} ends in neither .json nor .csv")
    if output.exists():
        raise UsageError(f"{output} exists already; choose another file or remove it first")
    with Ledger.open(path) as ledger:
        document = overview(ledger)
        evaluations = [each.as_dict() for each in ledger.evaluations()]
    if output.suffix == ".csv":
        write_text(output, _lines(document["releases"]))
    else:
        whole = {**document, "evaluations": evaluations}
        write_text(output, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return {"releases": len(document["releases"]), "evaluations": len(evaluations)}


def guarantees_text(guarantees: list[dict[str, Any]]) -> str:
    """Write guarantees in one line."""
    return "; ".join(f"{each['model']} ({parameters_text(each['parameters'])})" for each in guarantees)


def _population(population: Population) -> dict[str, Any]:
    return {
        "name": population.name,
        "floor": population.floor,
        "warns": population.warns,
        "floors": [{"at": each.at, "floor": each.floor, "warns": each.warns} for each in population.changes],
    }


def _lines(releases: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    columns = ("number", "at", "population", "recipient", "status", "settled", "reason", "origin", "method")
    rest = ("guarantees", "sensitive", "rows", "l", "floor", "manifest_sha256", "data_sha256", "shoal_version", "seal")
    writer = csv.DictWriter(text, (*columns, *rest), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for each in releases:
        data = next(name for name in each["files"] if name.startswith("data."))
        writer.writerow(
            {
                **each,
                "guarantees": guarantees_text(each["guarantees"]),
                "sensitive": ", ".join(each["sensitive"]),
                "manifest_sha256": each["files"]["manifest.json"]["sha256"],
                "data_sha256": each["files"][data]["sha256"],
            }
        )
    return text.getvalue()
