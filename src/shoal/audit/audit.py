"""The audit: the risk of publishing a table unchanged, given a policy."""

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
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import find_starts
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
    """Measure the risk of publishing the table unchanged, without identifiers.

    Parameters
    ----------
    data
        The table, in memory or a file.
    policy
        The roles of its columns, and the privacy models to judge.
    population
        A table of the people among whom an attacker may search, with the quasi columns. Populations that the policy's
        models name are used as well.
    largest_set
        All sets of up to this many quasi attributes are examined.
    threshold
        The smallest sets that make more than this share of the records unique are listed.
    sample_fraction
        The table is a random sample, this fraction of its population; the audit estimates population uniqueness.

    Examples
    --------
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
    loaded = Policy.load(policy)
    source = open_source(data, loaded.source)
    check_columns(loaded, source)
    if loaded.survey_weight is not None:
        check_weights(source, loaded.survey_weight)
    loaded, source = unfold_baskets(loaded, source)
    populations = open_populations(loaded)
    if population is not None:
        other = open_source(population, loaded.source)
        populations[other.name if other.name not in populations else f"{other.name} (given)"] = other
    with show_progress(progress) as showing:
        return _measure(source, loaded, populations, largest_set, threshold, sample_fraction, showing)


def _measure(
    source: Source,
    policy: Policy,
    populations: dict[str, Source],
    largest_set: int,
    threshold: float,
    fraction: float | None,
    progress: Progress,
) -> result.Audit:
    engine = LocalEngine()
    raw = read_raw(source, policy, populations, engine, progress)
    units = count_appearances(source, policy, raw, engine, progress)
    found, quasi = units.appearances, raw.quasi_columns()
    people = raw.sizes if found is None else found.class_sizes()
    sets, special = search_sets(quasi, people, largest_set, progress)
    weight = policy.survey_weight
    sizes, prosecutor, codes = raw.sizes, result.search_risk(people, people), [one.codes for one in quasi]
    risks: dict[str, result.PopulationRisk] = {}
    for requirement in raw.encoding.problem.requirements:
        name = requirement.population_name
        if requirement.population is not None and name not in risks:
            n_people = int(requirement.population.sum())
            risks[name] = result.population_risk(name, n_people, people, raw.people(requirement)[0])
    return result.Audit(
        source=source.name,
        rows=raw.counted.n_rows,
        records=raw.n_records,
        missing=policy.missing,
        missing_values=result.missing_values(raw),
        quasi=policy.names("quasi"),
        classes=raw.n_classes,
        smallest_class=int(sizes.min()),
        unique_records=int((sizes == 1).sum()),
        class_sizes=tuple(size_histogram(sizes)),
        prosecutor=prosecutor,
        marketer=prosecutor.mean,
        populations=tuple(risks.values()),
        models=verdicts(raw, policy.privacy, people, units.by_people, None if found is None else found.class_of),
        sensitive=sensitive_risks(raw),
        sets=sets,
        threshold=threshold,
        minimal_sets=minimal_sets(sets, threshold),
        fastest_order=fastest_order(quasi, people, progress),
        columns=result.column_risks(raw, policy, progress),
        special=result.SpecialRisk.of(special, fraction),
        uniqueness=None if fraction is None else estimate_uniqueness(people, fraction),
        loglinear=() if fraction is None else estimate_loglinear(codes, people, fraction),
        persons=None if found is None or policy.unit is None else person_risk(policy.unit, found),
        households=None if found is None or policy.household is None else household_risk(policy.household, found),
        individual=None if weight is None else individual_risk(source, weight, raw, engine, progress),
        findings=_find(raw, policy, source),
        not_applied=(*list_changed(policy.techniques), *(("sample",) if policy.sample is not None else ())),
    )


def _find(raw: RawTable, policy: Policy, source: Source) -> tuple[Finding, ...]:
    """Return the findings about the unchanged table, as if it were published under the policy's guarantees."""
    names = raw.counted.columns
    form = read_form(
        describe_plain({name: {"role": policy.attributes[name].role, "kind": "category"} for name in names})
    )
    counts = RowCounts.of(form)
    columns = (np.repeat(raw.column(number).codes, raw.records) for number in range(len(names)))
    counts.add(pa.RecordBatch.from_arrays([pa.array(codes) for codes in columns], names=list(names)))
    return find_all(PublishedTable(form, counts, policy.privacy, given=(policy, source)), policy.accept)


class CountedUnits(NamedTuple):
    """Persons and households by class; None if the policy names neither.

    With them come the models of values, by their place in the policy, that can count these people: none that compares
    distributions, and none at all if records have no person.
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
    # As in the table itself, classes are in ascending order of their quasi values.
    counted = engine.count(source, (*names, *sensitive, *quasi), progress)
    codes = {name: counted.codes(number) for number, name in enumerate(counted.columns)}
    kept = np.ones(len(counted.run.counts), dtype=np.bool_)
    if policy.missing == "drop":
        kept = np.logical_and.reduce([codes[name] != 0 for name in (*quasi, *sensitive)])
    codes = {name: column[kept] for name, column in codes.items()}
    starts = find_starts([codes[name] for name in quasi])
    found = Appearances(
        class_of=np.repeat(np.arange(len(starts)), np.diff(np.append(starts, int(kept.sum())))),
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
