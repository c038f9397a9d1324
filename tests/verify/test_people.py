"""People counted by the witness, the values before techniques, and withheld people, beside counting with sets.

All tests are plain functions: ``tests/mutants/run.py`` calls them again and again on changed code.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.errors import InputError
from shoal.sources.opening import open_source
from shoal.verify.people import fold_values
from shoal.verify.result import CheckedGuarantee, Verification
from shoal.verify.verifier import verify_table

Row = tuple[str | None, str | None, str, str | None]  # person, home, quasi-identifier, sensitive value
PEOPLE = {"unit": "person", "household": "home"}
UNIT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("k-anonymity", {"k": 1}),
    ("profitability", {"gain": 2, "cost": 1}),
    ("distinct-l-diversity", {"l": 1}),
    ("simple-l-diversity", {"l": 1}),
    ("entropy-l-diversity", {"l": 1}),
    ("recursive-cl-diversity", {"c": 9, "l": 2}),
    ("alpha-k-anonymity", {"alpha": 1, "k": 1}),
    ("beta-likeness", {"beta": 9}),
    ("delta-disclosure", {"delta": 9}),
    ("confidence-bounding", {"most": 1, "harmless": ["flu"]}),
)


def verify(
    rows: Sequence[Row],
    promises: Sequence[tuple[str, dict[str, Any]]],
    *,
    counts: str | None = None,
    hidden: Sequence[int] = (),
    published: Sequence[str | None] | None = None,
    witness: Any = ...,
    with_source: bool = True,
    claimed: float = 1.0,
    **changes: Any,
) -> Verification:
    """Verify the release of all rows but the hidden ones: quasi-identifiers are their own labels."""
    shown = [place for place in range(len(rows)) if place not in hidden]
    labels = sorted({rows[place][2] for place in shown})
    values = [row[3] for row in rows] if published is None else published
    source = pa.table(
        {name: pa.array([row[n] for row in rows], pa.string()) for n, name in enumerate(("person", "home", "a", "s"))}
    )
    table = pa.table(
        {"a": [rows[place][2] for place in shown], "s": pa.array([values[place] for place in shown], pa.string())}
    )
    numbers = [0 if place in hidden else 1 + labels.index(rows[place][2]) for place in range(len(rows))]
    counted = {} if counts is None else {"counts": counts}
    manifest = {
        "format": 1,
        "shoal_version": "0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": [{"model": name, "parameters": own, "achieved": claimed, **counted} for name, own in promises],
        "parts": [["a", "s"]],
        "rows": len(shown),
        "withheld": len(hidden),
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "people": PEOPLE,
        "attributes": {
            "a": {"role": "quasi", "kind": "category", "labels": {label: {"values": [label]} for label in labels}},
            "s": {"role": "sensitive", "kind": "category"},
        },
        **changes,
    }
    given = np.array(numbers) if witness is ... else witness
    return verify_table(table, manifest, source=open_source(source) if with_source else None, witness=given)


def judge(rows: Sequence[Row], model: str, parameters: dict[str, Any], **more: Any) -> CheckedGuarantee:
    found = verify(rows, [(model, parameters)], **{"counts": "unit", **more})
    return found.guarantees[0]


def fail(found: Verification) -> set[str]:
    return {check.name for check in found.checks if not check.ok}


def reach(rows: Sequence[Row], who: int) -> list[list[float]]:
    """Return for each class, by counting sets of people, what it reaches by every model of ``UNIT``."""
    everybody = {row[who] for row in rows}
    whole: dict[str | None, set[str | None]] = defaultdict(set)
    classes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        whole[row[3]].add(row[who])
        classes[row[2]].append(row)
    found = []
    for members in classes.values():
        people, having = {row[who] for row in members}, defaultdict(set)
        for row in members:
            having[row[3]].add(row[who])
        n, capped = len(people), []
        for own in sorted(map(len, having.values()), reverse=True):
            capped.append(min(own, n - sum(capped)))
        capped = [own for own in capped if own]
        tail = sum(capped[1:])
        bases = {value: len(own) / len(everybody) for value, own in whole.items()}
        ratios = {value: len(having.get(value, ())) / n / base for value, base in bases.items()}
        found.append(
            [
                n,
                2 / n,
                len(capped),
                n / capped[0],
                math.exp(-sum(own / n * math.log(own / n) for own in capped)),
                capped[0] / tail if tail else math.inf,
                capped[0] / n,
                max(0, *(ratio - 1 for ratio in ratios.values())),
                max(abs(math.log(ratio)) if ratio else math.inf for ratio in ratios.values()),
                max([len(own) / n for value, own in having.items() if value != "flu"], default=0),
            ]
        )
    return found


def test_people_and_households_are_counted_once_in_a_class_and_once_for_a_value() -> None:
    rng = random.Random(5)
    for _ in range(5):
        rows: list[Row] = [
            (f"p{rng.randrange(7)}", f"h{rng.randrange(3)}", rng.choice("xy"), rng.choice(["flu", "gout", "pox", None]))
            for _ in range(rng.randint(5, 16))
        ]
        for who, counts in enumerate(PEOPLE):
            found = verify(rows, UNIT, counts=counts)
            assert fail(found) <= {"order"}
            for place, one in enumerate(found.guarantees):
                least = one.model in (
                    "k-anonymity",
                    "distinct-l-diversity",
                    "simple-l-diversity",
                    "entropy-l-diversity",
                )
                wanted = (min if least else max)(own[place] for own in reach(rows, who))
                assert one.achieved == pytest.approx(wanted), (one.model, rows)
                assert not one.partly


PLAIN = {"role": "quasi", "kind": "category"}


def test_classes_of_values_as_they_are() -> None:
    rows: list[Row] = [
        ("p1", "h1", "x", "flu"),
        ("p2", "h1", "x", "gout"),
        ("p3", "h2", "y", "flu"),
        ("p3", "h2", "y", "flu"),
    ]
    attributes = {"a": PLAIN, "s": {"role": "sensitive", "kind": "category"}}
    plain = {"form": "plain", "attributes": attributes, "witness": np.ones(4, dtype=np.int64)}
    for counts, n in (("unit", [1.0, 1.0]), ("household", [1.0, 1.0])):
        found = verify(rows, [("k-anonymity", {"k": 1}), ("simple-l-diversity", {"l": 1})], counts=counts, **plain)
        assert [one.achieved for one in found.guarantees] == n
        assert all(one.ok for one in found.guarantees)
    assert not verify(rows, [("k-anonymity", {"k": 2})], counts="unit", **plain).guarantees[0].ok


ALIKE: list[Row] = [
    ("p1", "h1", "x", "flu"),
    ("p1", "h1", "x", "gout"),
    ("p2", "h1", "x", "pox"),
    ("p2", "h1", "x", "flu"),
]
APART: list[Row] = [(f"q{n}", f"i{n}", "x", value) for n, value in enumerate(("flu", "gout", "pox", "flu"))]


def test_a_class_of_too_few_people_is_refused() -> None:
    assert not judge(ALIKE, "k-anonymity", {"k": 3}, claimed=2.0).ok
    assert judge(ALIKE, "k-anonymity", {"k": 2}, claimed=2.0).ok
    assert not judge(ALIKE, "k-anonymity", {"k": 2}, counts="household", claimed=2.0).ok
    assert not judge(ALIKE, "simple-l-diversity", {"l": 1.5}).ok
    assert judge(APART, "simple-l-diversity", {"l": 1.5}, claimed=2.0).ok


def test_people_who_cannot_be_counted() -> None:
    unnamed = [(None, *row[1:]) for row in APART[:1]] + APART[1:]
    assert "name no person" in judge(unnamed, "k-anonymity", {"k": 1}).detail
    assert "some people have several values" in judge(ALIKE, "t-closeness", {"t": 1}).detail
    assert judge(APART, "t-closeness", {"t": 1}, claimed=0.0).ok
    with pytest.raises(InputError, match="lacks the columns that name people: who"):
        judge(APART, "k-anonymity", {"k": 1}, people={"unit": "who"})
    wrong = judge(APART, "k-anonymity", {"k": 4}, claimed=4.0, witness=np.array([1, 1, 1, 0]))
    assert (wrong.ok, wrong.detail) == (False, "not checked: the witness is not true")
    missing = judge(APART, "k-anonymity", {"k": 4}, claimed=4.0, witness=None)
    assert (missing.ok, missing.done, missing.partly) == (True, False, False)


def test_public_files_show_as_many_records_as_people_and_no_more() -> None:
    def show(model: str, parameters: dict[str, Any], claimed: float = 1.0) -> CheckedGuarantee:
        one = judge(APART, model, parameters, claimed=claimed, with_source=False, witness=None)
        assert one.partly
        return one

    for model, parameters, claimed, holds in (
        ("k-anonymity", {"k": 4}, 4.0, True),
        ("k-anonymity", {"k": 5}, 5.0, False),
        ("k-anonymity", {"k": 3}, 3.0, True),
        ("k-anonymity", {"k": 3}, 5.0, False),
        ("distinct-l-diversity", {"l": 3}, 3.0, True),
        ("distinct-l-diversity", {"l": 4}, 3.0, False),
        ("simple-l-diversity", {"l": 4}, 9.0, False),
        ("simple-l-diversity", {"l": 3}, 9.0, True),
        ("entropy-l-diversity", {"l": 4}, 9.0, False),
        ("recursive-cl-diversity", {"c": 1, "l": 4}, 9.0, False),
        ("alpha-k-anonymity", {"alpha": 0.1, "k": 5}, 9.0, False),
        ("alpha-k-anonymity", {"alpha": 0.1, "k": 4}, 9.0, True),
        ("profitability", {"gain": 5, "cost": 1}, 1.25, False),
        ("profitability", {"gain": 4, "cost": 1}, 1.0, True),
        ("profitability", {"gain": 4, "cost": 1}, 0.5, False),
        ("k-anonymity", {"k": 0}, 5.0, False),
    ):
        assert show(model, parameters, claimed).ok == holds, (model, parameters, claimed)
    assert "all 1 class have enough records" in show("k-anonymity", {"k": 4}, 4.0).detail
    assert "1 of 1 classes have too few records or values" in show("k-anonymity", {"k": 5}, 5.0).detail
    assert "better than the records allow" in show("k-anonymity", {"k": 3}, 5.0).detail
    for model, parameters in (("beta-likeness", {"beta": 1}), ("distinct-l-diversity", {"l": 9, "harmless": ["flu"]})):
        assert show(model, parameters).detail.startswith("records cannot show it; the data holder vouches for people")
    refused = show("k-anonymity", {"k": 0})
    assert not refused.ok
    assert refused.detail.startswith("cannot check")


def test_one_row_of_each_person() -> None:
    rows: list[Row] = [
        ("p1", None, "x", "flu"),
        ("p1", None, "x", "gout"),
        ("p2", None, "x", "pox"),
        (None, None, "x", "flu"),
    ]
    drawn = {"sample": {"one_per": "unit"}, "withheld": 0}
    promise = [("k-anonymity", {"k": 1})]
    assert "sample" not in fail(verify(rows, promise, hidden=[1], **drawn))
    assert "sample" in fail(verify(rows, promise, hidden=[1, 2], **drawn))
    assert "sample" in fail(verify(rows, promise, **drawn))
    dropped = {**drawn, "missing": {"policy": "drop", "tokens": [""], "dropped": 1}}
    assert "sample" not in fail(verify(rows, promise, hidden=[1, 2], **dropped))
    assert "sample" in fail(verify(rows, promise, hidden=[1], **dropped))
    with pytest.raises(InputError, match="lacks 1 column of the release: who"):
        verify(rows, promise, hidden=[1], **drawn, people={"unit": "who"})
    assert "sample" in fail(verify([*rows[:2], rows[0]], promise, hidden=[1, 2], witness=np.array([1, 1, 0]), **drawn))
    twice = verify(rows, promise, hidden=[2], **drawn)
    (found,) = [check for check in twice.checks if check.name == "sample"]
    assert (found.ok, found.detail) == (False, "1 published row too many for one row of each person")
    assert "sample" not in fail(verify(rows, promise, hidden=[2], witness=None, **drawn))


def test_spellings_have_a_normal_form() -> None:
    values = pa.array(["Flu ", "flu", "?", "7", "07", "7.0", "nan", "-0", "1e2", None, "x"])
    assert fold_values(values, ["?"], numeric=True).to_pylist() == [
        "flu",
        "flu",
        None,
        "7",
        "7",
        "7",
        None,
        "0",
        "100",
        None,
        "x",
    ]
    assert fold_values(values, [], numeric=False).to_pylist() == [
        *("flu", "flu", "?", "7", "07", "7.0", "nan", "-0", "1e2", None, "x")
    ]
    assert fold_values(values.dictionary_encode(), ["?"], numeric=False)[2].as_py() is None


MOVED = {"s": {"technique": "permutation", "within": []}}


def test_values_before_techniques_satisfy_the_promise_too() -> None:
    values = ["flu", "flu", "gout", "pox"]
    rows: list[Row] = [(None, None, "xxyy"[n], value) for n, value in enumerate(values)]
    mixed = ["gout", "flu", "flu", "pox"]
    promise = [("distinct-l-diversity", {"l": 2})]
    assert "true values" not in fail(verify(rows, promise, claimed=2.0))
    found = verify(rows, promise, published=mixed, techniques=MOVED, claimed=2.0)
    (check,) = [check for check in found.checks if check.name == "true values"]
    assert (check.ok, check.detail) == (False, "distinct-l-diversity: 1 classes fail by the values before it")
    often: list[Row] = [(None, None, "xxxxy"[n], value) for n, value in enumerate(["flu", "flu", "flu", "gout", "flu"])]
    found = verify(often, [("simple-l-diversity", {"l": 1})], published=["gout", *["flu"] * 4], techniques=MOVED)
    assert "true values" not in fail(found)
    found = verify(often, [("simple-l-diversity", {"l": 1.3})], published=["gout", *["flu"] * 4], techniques=MOVED)
    (check,) = [check for check in found.checks if check.name == "true values"]
    assert check.detail.startswith("simple-l-diversity: 1 classes")  # 4/3 and 1
    both = {**MOVED, "a": MOVED["s"]}
    plain = {"form": "plain", "attributes": {"a": PLAIN, "s": {"role": "sensitive", "kind": "category"}}}
    found = verify(rows, promise, published=mixed, techniques=both, witness=np.ones(4, dtype=np.int64), **plain)
    (check,) = [check for check in found.checks if check.name == "true values"]
    assert "cannot be determined" in check.detail
    honest: list[Row] = [(None, None, "xxyy"[n], value) for n, value in enumerate(mixed)]
    assert fail(verify(honest, promise, published=["pox", "gout", "flu", "flu"][::-1], techniques=MOVED)) <= {"order"}
    first = verify(honest, promise, published=["flu", "gout", "flu", "pox"], techniques=MOVED, claimed=2.0)
    assert "true values" not in fail(first)
    (ordered,) = [
        check
        for check in verify(
            honest, [("t-closeness", {"t": 1, "distance": "ordered"})], published=mixed[::-1], techniques=MOVED
        ).checks
        if check.name == "true values"
    ]
    assert "has no order" in ordered.detail


def hide(values: Sequence[str | None], model: str = "distinct-l-diversity", **parameters: Any) -> bool | None:
    """Whether withheld people with these values satisfy a promise, as three classes do; None: it is not judged."""
    changes = {key: parameters.pop(key) for key in ("missing", "sample", "techniques") if key in parameters}
    rows: list[Row] = [(None, None, "xyz"[n // 4], ("flu", "gout", "pox", "flu")[n % 4]) for n in range(12)]
    hidden = [12 + n for n in range(len(values))]
    if "missing" in changes:
        changes["withheld"] = len(values) - 1
    found = verify(
        [*rows, *((None, None, "w", value) for value in values)], [(model, parameters)], hidden=hidden, **changes
    )
    judged = [check.ok for check in found.checks if check.name == "withheld"]
    return judged[0] if judged else None


def test_withheld_people_satisfy_the_models_of_values() -> None:
    assert hide([], l=2) is None
    assert hide(["flu"], l=2) is False
    assert hide(["flu", "gout"], l=2) is True
    assert hide(["flu", "Flu "], l=2) is False
    assert hide(["flu", None], l=2) is True
    assert hide(["flu", "flu", "gout"], "simple-l-diversity", l=1.5) is True
    assert hide(["flu", "flu", "gout"], "simple-l-diversity", l=1.6) is False
    assert hide(["flu", "gout"], "simple-l-diversity", l=3) is False
    assert hide(["flu", "gout", "pox"], "t-closeness", t=0.2) is True
    assert hide(["flu", "gout", "gout"], "t-closeness", t=0.2) is False
    assert hide(["flu", "gout", "pox"], "t-closeness", t=0.2, distance="ordered") is False
    assert hide(["flu"], "k-anonymity", k=2) is None
    assert hide(["flu"], l=2, harmless=["flu"]) is True
    assert hide(["flu"], l=0) is None
    assert hide(["flu"], l=2, sample={"share": 0.9}) is None
    # Under a curve values may also be as frequent as in the table: half of 16 people have the flu here.
    assert hide(["flu", "flu", "gout", "pox"], "tau-l-diversity", tau=0.5, l=2) is True
    assert hide(["flu", "flu", "gout", "pox"], "tau-l-diversity", tau=0.4, l=2) is True
    assert hide(["gout", "gout", "flu", "pox"], "tau-l-diversity", tau=0.4, l=2) is False
    assert hide(["flu", "flu", "flu", "pox"], "tau-l-diversity", tau=0.6, l=2) is False


def test_joint_values_of_withheld_people() -> None:
    rows = {"a": ["x"] * 4 + ["w"] * 2, "s": ["flu", "gout"] * 3, "t": ["1", "2", "2", "1", "1", "1"]}
    manifest = {
        "format": 1, "shoal_version": "0", "method": "mondrian", "method_parameters": {}, "parts": [["a", "s", "t"]],
        "guarantees": [
            {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": ["s", "t"]}, "achieved": 4.0},
            {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": "s"}, "achieved": 2.0},
        ],
        "rows": 4, "withheld": 2, "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {
            "a": {"role": "quasi", "kind": "category", "labels": {"x": {"values": ["x"]}}},
            "s": {"role": "sensitive", "kind": "category"},
            "t": {"role": "sensitive", "kind": "category"},
        },
    }  # fmt: skip
    table = pa.table(rows).slice(0, 4)
    for values, l, holds in ((["flu", "gout"], 2, True), (["flu", "flu"], 2, False), (["flu", "gout"], 3, False)):
        source = pa.table({**rows, "s": [*rows["s"][:4], *values]})
        promised = [{**one, "parameters": {**one["parameters"], "l": l}} for one in manifest["guarantees"]]
        found = verify_table(
            table, {**manifest, "guarantees": promised}, source=open_source(source), witness=np.array([1] * 4 + [0] * 2)
        )
        assert ("withheld" in fail(found)) != holds, values
    later = pa.table({**rows, "s": [*rows["s"][:4], "flu", "flu"], "t": [*rows["t"][:4], "1", "2"]})
    first = {**manifest, "guarantees": manifest["guarantees"][:1]}
    assert "withheld" not in fail(
        verify_table(table, first, source=open_source(later), witness=np.array([1] * 4 + [0] * 2))
    )
