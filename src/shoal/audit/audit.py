"""The audit: a table and a policy in, the risk of publishing the table as it is out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.audit import result
from shoal.audit.counting import RowCounts
from shoal.audit.findings import PublishedTable, find_all
from shoal.audit.raw import RawTable, read_raw
from shoal.audit.requirements import sensitive_risks, verdicts
from shoal.audit.survey import estimate_loglinear, individual_risk
from shoal.audit.uniqueness import fastest_order, minimal_sets, search_sets
from shoal.audit.units import Appearances, household_risk, person_risk, size_histogram
from shoal.columns.base import list_changed
from shoal.core.arrays import IntArray
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Progress, show_progress
from shoal.core.results import Finding
from shoal.engines.local import LocalEngine
from shoal.manifest import describe_plain
from shoal.models.population import check_fraction, estimate_uniqueness
from shoal.plan.problem import Requirement
from shoal.policy.encoding import check_columns, encode, open_populations
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.forms.base import read_form
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.utility.marginals import check_weights


def audit(
    data: object,
    policy: str | Path | Mapping[str, Any] | Policy,
    *,
    population: object | None = None,
    largest_set: int = 3,
    threshold: float = 0.05,
    sample_fraction: float | None = None,
    progress: Progress | None = None,
) -> result.Audit:
    """Measure what anybody could learn from the table if it were published as it is, identifiers left out.

    *population* is a table of all people among whom somebody may search, with the quasi columns; those that the
    policy's models name are used as well. All sets of up to *largest_set* quasi attributes are looked at, and the
    smallest ones that make more than *threshold* of the records unique are named. If the table is a random sample,
    *sample_fraction* of its population, it is estimated how many people are unique there.

    >>> import pyarrow as pa
    >>> people = pa.table({"age": [34, 34, 51], "sex": ["F", "F", "M"], "illness": ["flu", "flu", "gout"]})
    >>> roles = {"age": {"role": "quasi"}, "sex": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    >>> found = audit(people, {"attributes": roles, "privacy": [{"k-anonymity": {"k": 2}}]})
    >>> found.headline
    '1 of 3 records (33.3%) is unique on age, sex.'
    >>> found.models[0].holds, found.sensitive[0].certain_records
    (False, 3)
    """
    if largest_set < 1:
        raise UsageError(f"sets have at least one attribute; received a largest set of {largest_set}")
    if not 0 <= threshold < 1:
        raise UsageError(f"the threshold is a share of records, from 0 to below 1; received {threshold}")
    if sample_fraction is not None:
        check_fraction(sample_fraction)
    loaded, source = _open_table(data, Policy.load(policy))
    populations = open_populations(loaded)
    if population is not None:
        other = open_source(population, loaded.source)
        populations[other.name if other.name not in populations else f"{other.name} (given)"] = other
    engine = LocalEngine()
    with show_progress(progress) as showing:
        raw = read_raw(source, loaded, populations, engine, showing)
        units = count_appearances(source, loaded, raw, engine, showing)
        found, quasi = units.appearances, raw.quasi_columns()
        people = raw.sizes if found is None else found.class_sizes()
        sets, special = search_sets(quasi, people, largest_set, showing)
        weight = loaded.survey_weight
        individual = None if weight is None else individual_risk(source, weight, raw, engine, showing)
        order, columns = fastest_order(quasi, people, showing), result.column_risks(raw, loaded, showing)
    sizes, prosecutor, codes = raw.sizes, result.search_risk(people, people), [one.codes for one in quasi]
    return result.Audit(
        source=source.name,
        rows=raw.counted.n_rows,
        records=raw.n_records,
        missing=loaded.missing,
        missing_values=result.missing_values(raw),
        quasi=loaded.names("quasi"),
        classes=raw.n_classes,
        smallest_class=int(sizes.min()),
        unique_records=int((sizes == 1).sum()),
        class_sizes=tuple(size_histogram(sizes)),
        prosecutor=prosecutor,
        marketer=prosecutor.mean,  # classes / people of classes
        populations=_population_risks(raw, people),
        models=verdicts(raw, loaded.privacy, people, units.by_people, None if found is None else found.class_of),
        sensitive=sensitive_risks(raw),
        sets=sets,
        threshold=threshold,
        minimal_sets=minimal_sets(sets, threshold),
        fastest_order=order,
        columns=columns,
        special=result.SpecialRisk.of(special, sample_fraction),
        uniqueness=None if sample_fraction is None else estimate_uniqueness(people, sample_fraction),
        loglinear=() if sample_fraction is None else estimate_loglinear(codes, people, sample_fraction),
        persons=None if found is None or loaded.unit is None else person_risk(loaded.unit, found),
        households=None if found is None or loaded.household is None else household_risk(loaded.household, found),
        individual=individual,
        findings=_find(raw, loaded, source),
        not_applied=(*list_changed(loaded.techniques), *(("sample",) if loaded.sample is not None else ())),
    )


def _open_table(data: object, policy: Policy) -> tuple[Policy, Source]:
    """Refuse columns that are missing and weights that are none; return attributes in place of baskets."""
    source = open_source(data, policy.source)
    check_columns(policy, source)
    if policy.survey_weight is not None:
        check_weights(source, policy.survey_weight)
    return unfold_baskets(policy, source)


def _find(raw: RawTable, policy: Policy, source: Source) -> tuple[Finding, ...]:
    """Look at the table as it is, as if it were published so under the policy's promises."""
    names = raw.counted.columns
    form = read_form(
        describe_plain({name: {"role": policy.attributes[name].role, "kind": "category"} for name in names})
    )
    counts = RowCounts.of(form)
    columns = (np.repeat(raw.column(number).codes, raw.records) for number in range(len(names)))
    counts.add(pa.RecordBatch.from_arrays([pa.array(codes) for codes in columns], names=list(names)))
    table = PublishedTable.of(form, counts, policy.privacy, given=(policy, source))
    return find_all(table, policy.accept)


def _population_risks(raw: RawTable, people: IntArray) -> tuple[result.PopulationRisk, ...]:
    risks: dict[str, result.PopulationRisk] = {}
    for requirement in raw.encoding.problem.requirements:
        name = requirement.population_name
        if requirement.population is not None and name not in risks:
            candidates, _ = raw.people(requirement)
            risks[name] = result.population_risk(name, int(requirement.population.sum()), people, candidates)
    return tuple(risks.values())


class CountedUnits(NamedTuple):
    """Persons and households by class; None if the policy names neither.

    With them come the models of values, by their place in the policy, as they count these people: none that compares
    distributions, and none at all if records name nobody.
    """

    appearances: Appearances | None
    by_people: Mapping[int, list[Requirement]]


def count_appearances(
    source: Source, policy: Policy, raw: RawTable, engine: LocalEngine, progress: Progress
) -> CountedUnits:
    """Count persons and households by class, in one more pass."""
    names = tuple(policy.units.values())
    if not names:
        return CountedUnits(None, {})
    quasi, sensitive = policy.names("quasi"), policy.names("sensitive")
    # As for the table itself, classes come in the ascending order of their quasi values.
    counted = engine.count(source, (*names, *sensitive, *quasi), progress)
    place = {name: number for number, name in enumerate(counted.columns)}
    codes = {name: counted.codes(place[name]) for name in counted.columns}
    kept = np.ones(len(counted.run.counts), dtype=np.bool_)
    if policy.missing == "drop":
        for name in (*quasi, *sensitive):
            kept &= codes[name] != 0
    codes = {name: column[kept] for name, column in codes.items()}
    new = np.zeros(int(kept.sum()), dtype=np.bool_)
    for name in quasi:
        new[1:] |= codes[name][1:] != codes[name][:-1]
    found = Appearances(
        class_of=np.cumsum(new),
        person=None if policy.unit is None else codes[policy.unit],
        household=None if policy.household is None else codes[policy.household],
        records=counted.run.counts[kept],
        n_classes=raw.n_classes,
    )
    sizes = np.bincount(found.class_of, weights=found.records).astype(np.int64)
    if not np.array_equal(sizes, raw.sizes):
        raise InputError(f"{source.name} changed while it was being read")
    by_people: dict[int, list[Requirement]] = {}
    if all((codes[name] != 0).all() for name in names):
        models = [i for i, one in enumerate(policy.privacy) if one.sees == "values" and not one.one_value_each]
        asked = replace(policy, privacy=tuple(policy.privacy[i] for i in models), sample=None)
        for requirement in encode(counted, asked).problem.requirements:
            by_people.setdefault(models[requirement.number], []).append(requirement)
    return CountedUnits(found, by_people)
