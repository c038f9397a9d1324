"""Checking a ledger: the values that all its releases leave together, and the documents for an auditor."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.core.errors import UsageError
from shoal.core.progress import Progress
from shoal.core.wording import parameters_text
from shoal.linking.ledger.book import Ledger, settle_by_folder
from shoal.linking.ledger.comparing import Set
from shoal.linking.ledger.entering import UnpackedReleases
from shoal.linking.ledger.evaluating import AttributeLinkage, Question, evaluate
from shoal.linking.ledger.records import Entry, Evaluation, Population, Spending, check_name
from shoal.release.forms.base import Cost
from shoal.release.release import PUBLIC, write_text
from shoal.sources.base import Source

Standing = dict[tuple[str, Set], Evaluation]
_NAMES = ("number", "at", "population", "recipient", "status", "settled", "reason", "origin", "method")
_FIGURES = ("guarantees", "sensitive", "rows", "epsilon", "delta", "l", "floor")


@dataclass(frozen=True, slots=True)
class PopulationCheck:
    """The result of checking one population."""

    population: Population
    entries: tuple[Entry, ...]  # without struck ones
    settled: tuple[int, ...]  # releases that were unfinished and are now marked as published
    linked: tuple[AttributeLinkage, ...]

    @property
    def spending(self) -> Spending:
        """The total cost of the differentially private releases."""
        return Spending.of([entry.cost for entry in self.entries], self.population.limits)

    @property
    def fails(self) -> bool:
        """Whether a set of releases violates the limits or could not be linked, or the budget is overspent."""
        return self.spending.over or any(one.failing for one in self.linked)

    def as_dict(self) -> dict[str, object]:
        return {
            "population": self.population.name,
            "floor": self.population.limits.floor,
            "below": self.fails,
            "releases": [entry.number for entry in self.entries],
            "settled": list(self.settled),
            "unfinished": [entry.number for entry in self.entries if entry.status == "unfinished"],
            "linked": [one.as_dict() for one in self.linked],
            "spent": self.spending.as_dict(),
        }


def check(path: Path, population: str | None, people: Source | None, progress: Progress) -> list[PopulationCheck]:
    """Link the releases of each population, or of one, in all sets, and store the results.

    With *people*, everything is linked again for the rows of that table, this time only. Without it, a set that was
    linked when its newest release was made keeps that result, which was exact for all its people; others are linked by
    classes.
    """
    with Ledger.open(path, write=True) as ledger:
        ledger.check_pages()
        chosen = [*ledger.populations()] if population is None else [ledger.find_population(population).name]
        if people is not None and len(chosen) > 1:
            raise UsageError(f"{path} has several populations; choose the one of these people with --population")
    return [_check_population(path, name, people, progress) for name in chosen]


def standing(evaluations: Iterable[Evaluation]) -> Standing:
    """Return the valid evaluation of each set: the last one for the rows of its newest release, or by classes.

    It is valid until more is known about people. An evaluation for a table of people is not used, because the releases
    may have other people.
    """
    last: Standing = {}
    for each in evaluations:
        if each.basis == "people":
            continue
        key = each.sensitive, each.releases
        before = last.get(key)
        if before is None or _lasts(each) or not _lasts(before) or not {*each.attributes} <= {*before.attributes}:
            last[key] = each
    return last


def remaining(entry: Entry, evaluations: Standing, counting: set[int]) -> int | None:
    """Return the smallest number of values that any evaluated set with this release leaves; None if it is not known."""
    sets = [each for each in evaluations.values() if each.sensitive and {*each.releases} <= counting]
    own = [each for each in sets if entry.number in each.releases]
    if any(each.problem is not None for each in own):
        return None
    return min((each.l for each in own if each.l is not None), default=None)


def strike(path: Path, number: int, reason: str) -> Entry:
    """Mark an unfinished release as never published; it stays in the record."""
    check_name("reason", reason)
    with Ledger.open(path, write=True) as ledger:
        entry = ledger.entry(number)
    if entry.status == "unfinished" and settle_by_folder(path, entry):
        raise UsageError(f"release {number} is in place and therefore published: {Path(entry.folder) / PUBLIC}")
    with Ledger.open(path, write=True) as ledger:
        ledger.settle(number, "struck", reason)
        return ledger.entry(number)


def _lasts(each: Evaluation) -> bool:
    """Whether an evaluation is exact for all people in all of the releases."""
    return each.basis == "source" and each.problem is None


def _check_population(path: Path, name: str, people: Source | None, progress: Progress) -> PopulationCheck:
    with Ledger.open(path) as ledger:
        waiting = [entry for entry in ledger.entries(name) if entry.status == "unfinished"]
    settled = tuple(entry.number for entry in waiting if settle_by_folder(path, entry))
    with UnpackedReleases.open() as unpacked:
        with Ledger.open(path) as ledger:
            population = ledger.find_population(name)
            entries = tuple(entry for entry in ledger.entries(name) if entry.counts)
            kept = {} if people is not None else standing(ledger.evaluations(name))
            releases = unpacked.read(ledger, entries)
        floor = population.limits.floor

        def recall(sensitive: str, chosen: Set, attributes: set[str]) -> Evaluation | None:
            """Return the stored evaluation if it used all attributes that are known by now."""
            found = kept.get((sensitive, chosen))
            if found is None or not _lasts(found) or not attributes <= {*found.attributes}:
                return None
            if not sensitive or found.floor == floor:
                return found
            # The number of people below this floor was not counted at the time.
            kept_by_all = found.l is None or found.l >= floor
            exposed = found.exposed if found.promised else 0
            if found.difference is not None and found.difference < floor:
                exposed = max(found.exposed, 1)
            return replace(found, floor=floor, below=0 if kept_by_all else None, exposed=exposed)

        linked = evaluate(Question(releases, floor, None, people, recall), progress)
    fresh = [each for one in linked for each in one.evaluations if not each.at]
    with Ledger.open(path, write=True) as ledger:
        ledger.add_evaluations(name, fresh)
    return PopulationCheck(population, entries, settled, tuple(linked))


def entry_document(entry: Entry) -> dict[str, object]:
    """Return an entry for JSON, without the folder that it was written to."""
    return {
        **{name: getattr(entry, name) for name in (*_NAMES, "rows")},
        "epsilon": None if entry.cost is None else entry.cost.epsilon,
        "delta": None if entry.cost is None else entry.cost.delta,
        "same_as": dict(entry.terms.same_as),
        "accepted": dict(entry.terms.accepted),
        "guarantees": [dict(each) for each in entry.guarantees],
        "sensitive": list(entry.sensitive),
        "files": {name: {"bytes": file.size, "sha256": file.sha256} for name, file in entry.files.items()},
        "shoal_version": entry.version,
        "seal": entry.seal,
    }


def overview(ledger: Ledger, population: str | None = None) -> dict[str, Any]:
    """Return the content of `shoal ledger show`: populations, and entries with their remaining values."""
    populations = ledger.populations() if population is None else {population: ledger.find_population(population)}
    kept: Standing = standing(ledger.evaluations(population))
    entries = ledger.entries(population)
    counting = {entry.number for entry in entries if entry.counts}

    def costs(name: str) -> list[Cost | None]:
        return [entry.cost for entry in entries if entry.counts and entry.population == name]

    return {
        "populations": [
            {
                "name": each.name,
                **{key: value for key, value in each.limits.as_dict().items() if key != "at"},
                "changes": [one.as_dict() for one in each.changes],
                "spent": Spending.of(costs(each.name), each.limits).as_dict(),
            }
            for each in populations.values()
        ],
        "releases": [
            {
                **entry_document(entry),
                "l": remaining(entry, kept, counting) if entry.counts else None,
                "floor": populations[entry.population].limits.floor,
            }
            for entry in entries
        ],
    }


def export(path: Path, output: Path) -> dict[str, int]:
    """Write a ledger to a new file, .json with everything or .csv with a line for each entry; return the counts."""
    if output.suffix not in (".json", ".csv"):
        raise UsageError(f"{output.name} must end in .json or .csv")
    if output.exists():
        raise UsageError(f"{output} exists already; choose another file or remove it first")
    with Ledger.open(path) as ledger:
        document = overview(ledger)
        evaluations = [each.as_dict() for each in ledger.evaluations()]
    if output.suffix == ".json":
        whole = {**document, "evaluations": evaluations}
        write_text(output, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    else:
        text = io.StringIO()
        columns = ("manifest_sha256", "data_sha256", "shoal_version", "seal")
        writer = csv.DictWriter(text, (*_NAMES, *_FIGURES, *columns), extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for each in document["releases"]:
            digests = {Path(name).stem: file["sha256"] for name, file in each["files"].items()}
            listed = {
                "guarantees": guarantees_text(each["guarantees"]),
                "sensitive": ", ".join(each["sensitive"]),
                "manifest_sha256": digests["manifest"],
                "data_sha256": digests["data"],
            }
            writer.writerow({**each, **listed})
        write_text(output, text.getvalue())
    return {"releases": len(document["releases"]), "evaluations": len(evaluations)}


def guarantees_text(guarantees: list[dict[str, Any]]) -> str:
    return "; ".join(f"{each['model']} ({parameters_text(each['parameters'])})" for each in guarantees)
