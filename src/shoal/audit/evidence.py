"""The evidence of a run: the internal figures that a review board may ask for."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from math import comb
from typing import Any

import numpy as np

import shoal
from shoal.audit.uniqueness import special_uniques
from shoal.audit.units import bucket_risks, class_risks, people_risks
from shoal.columns.base import TreatedSource, changes_before, list_warnings
from shoal.columns.baskets import UnfoldedSource
from shoal.columns.sampling import SampledSource
from shoal.core.arrays import AnyIntArray, IntArray
from shoal.core.kernels import same_rows
from shoal.core.progress import Silent
from shoal.core.results import Finding
from shoal.engines.local import CountedCells, LocalEngine
from shoal.release.publication import Hiding, Publication
from shoal.sources.base import Source, layers
from shoal.sources.columns import is_text, normal_column
from shoal.utility.base import Utility
from shoal.utility.marginals import Marginals

_LITTLE_WORK, _ANY_WORK = 2.0**19, float("inf")  # cells times pairs of attributes
_NOT_STATED = "(not stated)"
_MOST_WORK = 2**24  # sets of attributes times cells: about 0.2 s
_LARGEST = 3
_MOST_SETS = 10


def build_evidence(
    publication: Publication,
    given: OriginalRisks,
    utility: Utility,
    findings: Sequence[Finding],
    seed: int | None,
    marginals: Sequence[Marginals] = (),
    *,
    thorough: bool = False,
) -> dict[str, Any]:
    """Return the policy, the source's digest, risks before and after, utility, and findings.

    Associations between pairs of attributes are included if they are fast to compute, or if the run is *thorough*.
    """
    *_, source = layers(publication.source)
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(source.digest)  # reads the file again while risks are measured
        published = {  # without entries that do not apply
            "columns": publication.column_shares(),
            "rows_suppressed": publication.count_suppressed_rows(),
            "missing_markers": count_markers(source, publication.column_names),
            "sensitive": publication.sensitive_shares(),
            "associations": publication.associations(_ANY_WORK if thorough else _LITTLE_WORK),
        }
        risk_after, carriers = measure_risks(publication.hiding()), _carriers(publication, given)
    return {
        "shoal_version": shoal.__version__,
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "source": {"name": source.name, "rows": given.n_rows, "sha256": digest.result()},
        "policy": _policy(publication.policy.document),
        "seed": seed,
        "randomness": "operating system" if seed is None else "the given seed: repeatable, so keep it secret",
        **_changes(publication, given),
        "risk_before": given.risks,
        "risk_after": risk_after,
        "risk_carriers": carriers,
        "generalized_sensitive": publication.count_generalized(),
        **{key: entry for key, entry in published.items() if entry or entry == 0},
        "utility": utility,
        "marginals": [one.as_dict() for one in marginals],
        "withheld": publication.n_withheld,
        "search": dict(publication.search),
        "findings": [finding.as_dict() for finding in findings],
        "warnings": [*list_warnings(publication.source), *publication.warnings],
        **publication.own_evidence,
    }


def count_markers(source: Source, columns: Collection[str]) -> dict[str, int]:
    """Return how many values of each column are declared as missing, and are therefore published as empty."""
    cleaning, blank = source.cleaning, tuple(text for text in source.cleaning.missing if not text.strip())
    kinds = {field.name: field.type for field in source.schema if field.name in columns}
    everywhere = len(blank) < len(cleaning.missing)
    names = [name for name, kind in kinds.items() if name in cleaning.missing_in or (everywhere and is_text(kind))]
    found: Counter[str] = Counter()
    raw = replace(source, cleaning=replace(cleaning, missing=blank, missing_in={}))
    for batch in raw.batches(names, dictionary=names) if names else ():
        for name, column in zip(names, batch.columns, strict=True):
            cleaned = normal_column(column, coded=is_text(kinds[name]), cleaning=cleaning, column=name)
            found[name] += cleaned.null_count - column.null_count
    return {name: number for name, number in found.items() if number}


def _changes(publication: Publication, given: OriginalRisks) -> dict[str, object]:
    """Return the counts of the sample and the techniques, if any."""
    entries: dict[str, Any] = {}
    for layer in layers(publication.source):
        if isinstance(layer, TreatedSource):
            entries["techniques"] = layer.findings()
        elif isinstance(layer, SampledSource):
            entries["sample"] = {"source_rows": given.n_rows, "sampled_rows": publication.n_source_rows}
    return entries


def _carriers(publication: Publication, given: OriginalRisks) -> dict[str, Any]:
    """Return the attributes that single records out before and, if values are published unchanged, after."""
    found = {"before": given.carriers}
    counted = publication.seen
    if publication.form.as_they_are and isinstance(counted, CountedCells):
        found["after"] = find_carriers(counted, publication.policy.names("quasi"))
    return found


def _policy(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the policy as it was written, without the paths of keys."""
    # A policy given as a mapping may hold paths, dates and NumPy numbers besides.
    text = json.dumps(
        dict(document), default=lambda value: value.item() if isinstance(value, np.generic) else str(value)
    )
    stated: dict[str, Any] = json.loads(text)
    for options in stated.get("attributes", {}).values():
        technique = options.get("technique")
        for parameters in technique.values() if isinstance(technique, dict) else ():
            if isinstance(parameters, dict) and "key" in parameters:
                parameters["key"] = _NOT_STATED
    return stated


@dataclass(frozen=True, slots=True, eq=False)
class OriginalRisks:
    """The size of the original source, and how easily its records could be found before sampling and techniques."""

    n_rows: int
    risks: dict[str, Any]
    carriers: dict[str, Any] | None  # the attributes that single records out; None: too slow to compute

    @classmethod
    def of(cls, publication: Publication) -> OriginalRisks:
        """Use the counts of the run; count again only if quasi values were changed or records drawn."""
        before = publication.hiding_before()
        if before is not None:
            return cls(publication.n_source_rows, measure_risks(before), None)
        quasi, counted = publication.policy.names("quasi"), publication.seen
        if not isinstance(counted, CountedCells):
            raise TypeError("the table was not counted")
        units = dict(list(publication.policy.units.items())[:1])
        if changes_before(publication.source, quasi):
            quasi = _fold_columns(publication.source, quasi)
            *_, source = layers(publication.source)
            counted = LocalEngine().count(source, (*units.values(), *quasi), Silent())
        risks = class_risks(counted.class_sizes(quasi))
        for key, name in units.items():
            _, class_of = same_rows(list(quasi_codes(counted, quasi).values()))
            person = counted.codes(counted.columns.index(name))
            risks = people_risks(key, class_of, person, counted.run.counts)
        return cls(counted.n_rows, risks, find_carriers(counted, quasi))


def measure_risks(hiding: Hiding | None) -> dict[str, Any]:
    """Return how easily records, or the people that the policy counts, are found by the sizes of their classes."""
    if hiding is None:
        return {}
    if hiding.slices is not None:
        return bucket_risks(hiding.sizes)
    if hiding.people is not None:
        found = hiding.people
        return people_risks(found.counts, found.class_of, found.person, found.records)
    return class_risks(hiding.sizes, hiding.times)


def quasi_codes(counted: CountedCells, quasi: tuple[str, ...]) -> dict[str, AnyIntArray]:
    return {name: counted.codes(counted.columns.index(name)) for name in quasi}


def _fold_columns(source: Source, quasi: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the original source for quasi attributes: baskets instead of their groups."""
    basket = {
        name: unfolding.column
        for layer in layers(source)
        if isinstance(layer, UnfoldedSource)
        for unfolding in layer.unfoldings
        for name in unfolding.names
    }
    return tuple(dict.fromkeys(basket.get(name, name) for name in quasi))


def find_carriers(counted: CountedCells, quasi: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the attributes that single out records of a table; None if it is too slow to compute."""
    short = _largest_set(len(quasi), len(counted.run.counts))
    return risk_carriers(quasi_codes(counted, quasi), counted.run.counts) if short else None


def _largest_set(n_attributes: int, n_cells: int) -> int:
    """Return the largest size of sets of attributes that can be examined quickly."""
    sizes = range(1, min(_LARGEST, n_attributes) + 1)
    work = ((size, n_cells * sum(comb(n_attributes, n) for n in range(1, size + 1))) for size in sizes)
    return max((size for size, steps in work if steps <= _MOST_WORK), default=0)


def risk_carriers(codes: Mapping[str, AnyIntArray], records: IntArray) -> dict[str, Any] | None:
    """Return the smallest sets of attributes that single records out, and each attribute's share of the score.

    Sets of up to three attributes are examined, smaller ones if the table is large; None if even single attributes
    would take long. The scores are defined for special uniques (:mod:`shoal.audit.uniqueness`).

    >>> import numpy as np
    >>> found = risk_carriers({"age": np.array([3, 3, 5]), "sex": np.array([0, 0, 1])}, np.array([1, 1, 1]))
    >>> found["unique_records"], found["sets"][0]["attributes"]
    (1, ['age'])
    """
    largest = _largest_set(len(codes), len(records))
    if not largest:
        return None
    found = special_uniques(codes, records, largest=largest)
    by_size = found.by_size()
    return {
        "unique_records": int(found.unique.sum()),
        "largest_set": found.largest,
        "records_by_smallest_set": {str(size): count for size, count in enumerate(by_size[:-1], start=1)},
        "records_of_larger_sets": by_size[-1],
        "contributions": dict(sorted(found.contributions.items(), key=lambda entry: -entry[1])),
        "sets": [
            {"attributes": list(one.attributes), "records": one.records, "score_share": one.score / found.score}
            for one in found.sets[:_MOST_SETS]
        ],
    }
