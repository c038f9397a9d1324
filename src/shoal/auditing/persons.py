"""Who the records of each class belong to, where the policy names persons or households."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shoal.auditing.raw import RawTable
from shoal.encoding import encode
from shoal.engines.local import LocalEngine
from shoal.errors import InputError
from shoal.policy import Policy
from shoal.problem import Requirement
from shoal.progress import Progress
from shoal.risk.units import Appearances
from shoal.sources import Source


def appearances(
    source: Source, policy: Policy, raw: RawTable, engine: LocalEngine, progress: Progress
) -> tuple[Appearances | None, Mapping[int, list[Requirement]]]:
    """Count persons and households by class, in one more pass; None if the policy names neither.

    With them come the models of values, by their place in the policy, as they count these people: none that compares
    distributions, and none at all if records name nobody.
    """
    names = tuple(policy.units.values())
    if not names:
        return None, {}
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
    return found, by_people
