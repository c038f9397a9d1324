"""The tables of docs/membership.md: ``python -m experiments.membership_tables``, from the root of a clone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import shoal
from experiments.membership import count_formed_tuples, membership
from shoal.attacks.base import Refusal
from shoal.attacks.membership import BucketContents, attack_tuples
from shoal.core.kernels import same_rows
from shoal.datasets.uci import adult
from shoal.methods.slicing.buckets import group_at_random

PARTITIONS = {
    "A": [["age", "marital-status", "race"], ["workclass", "education", "sex"]],
    "B": [["age", "marital-status", "race"], ["workclass", "education", "sex", "occupation"]],
    "C": [["age", "marital-status", "sex"], ["workclass", "education"], ["race", "occupation"]],
}
NAMES = ["age", "workclass", "education", "marital-status", "race", "sex", "occupation"]
N_QUERIES = 60


def print_random_buckets(parts: Sequence[Sequence[str]], size: int = 100, seed: int = 1) -> None:
    """Slice one half of Adult into random buckets, attack it with the other, and print what was found."""
    table, rng = adult(), np.random.default_rng(seed)
    codes = {name: _encode(table[name]) for part in parts for name in part}
    people = np.stack([same_rows([codes[name] for name in part])[1] for part in parts])
    order = rng.permutation(people.shape[1])
    members, control = people[:, order[::2]], people[:, order[1::2]]
    group = same_rows(list(members))[1]  # the cell of every record
    pieces = group_at_random(np.bincount(group), size, rng)
    bucket = np.empty(len(group), dtype=np.int32)
    bucket[np.argsort(group, kind="stable")] = np.repeat(pieces.bucket, pieces.records)
    contents = BucketContents.of(bucket, list(members))
    found = membership(bucket, list(members))
    fakes = attack_tuples(contents, members, None, len(order), rng)
    strangers = attack_tuples(contents, members, control, len(order), rng)
    print(found.fake_tuples, found.fakes.categories(), found.records.categories(), fakes.risk, strangers.risk)


def print_under_a_model() -> None:
    """Slice one half of Adult under simple 3-diversity in several ways, and print fakes, advantage and error."""
    table = adult(columns=NAMES)
    order = np.random.default_rng(3).permutation(table.num_rows)
    people, control = table.take(pa.array(order[::2])), table.take(pa.array(order[1::2]))
    roles = {name: {"role": "sensitive" if name == "occupation" else "quasi"} for name in NAMES}
    for columns in (2, 3):
        for grouping in ("mondrian", "random"):
            method = {"slicing": {"columns": columns, "alpha": 2, "grouping": grouping}}
            policy = {"attributes": roles, "privacy": [{"simple-l-diversity": {"l": 3}}], "method": method}
            release = shoal.anonymize(people, policy, seed=1)
            (attack,) = shoal.attack(release, people, control, attacks=["membership"], targets=8000, seed=1)
            if isinstance(attack, Refusal):
                raise TypeError(attack.reason)
            fakes, error = _count_fakes(release, people), _find_error(release, people)
            print(columns, grouping, release.manifest["buckets"], fakes, attack.risk, round(error, 3))


def _encode(column: pa.ChunkedArray) -> Any:
    return np.asarray(column.combine_chunks().dictionary_encode().indices)


def _find_error(release: shoal.Release, people: pa.Table) -> float:
    """Return the median relative error of counts over age, education and occupation."""
    rng, errors = np.random.default_rng(5), []
    for _ in range(N_QUERIES):
        low, high = sorted(rng.integers(17, 91, 2).tolist())
        schools = set(rng.choice(people["education"].unique().to_pylist(), 5).tolist())
        jobs = set(rng.choice(people["occupation"].unique().to_pylist(), 4).tolist())
        inside = (pc.field("age") >= low) & (pc.field("age") <= high)
        inside &= pc.field("education").isin(list(schools)) & pc.field("occupation").isin(list(jobs))
        true = people.filter(inside).num_rows
        where = {"age": (low, high + 1), "education": schools, "occupation": jobs}
        found = release.estimate(shoal.Query(where=where)).value
        errors.append(abs(found - true) / max(true, people.num_rows / 1000))
    return float(np.median(errors))


def _count_fakes(release: shoal.Release, people: pa.Table) -> int:
    """Return the number of tuples of quasi values that match a bucket and that no record has."""
    rows, quasi = release.data, NAMES[:-1]
    known = [[name for name in part if name in quasi] for part in release.manifest["parts"]]
    codes = [same_rows([_encode(rows[name]) for name in part])[1] for part in known if part]
    contents = BucketContents.of(rows["bucket"].to_numpy(), codes)
    return int(count_formed_tuples(contents).total - people.group_by(quasi).aggregate([]).num_rows)


if __name__ == "__main__":
    for parts in PARTITIONS.values():
        print_random_buckets(parts)
    print_under_a_model()
