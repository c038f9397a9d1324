"""Distributions, plans and the command ``shoal agency plan``."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shoal.agency.classes import greedy_classes
from shoal.agency.distribution import read_distribution
from shoal.agency.planning import make_plan, plan_document, write_plan
from shoal.cli import app
from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError
from shoal.release.forms.agreed import Promise, check_plan, digest_plan, read_plan
from shoal.taxonomies.files import from_nested

DELTA = Fraction("0.01")


def table(**columns: list) -> pa.Table:
    return pa.table(columns)


def known(n_points: int = 30, n_values: int = 6, seed: int = 1):
    rng = np.random.default_rng(seed)
    point, value = np.indices((n_points, n_values))
    counts = rng.integers(1, 40, size=n_points * n_values)
    columns = {"age": point.ravel() // 2, "sex": np.array(["f", "m"])[point.ravel() % 2]}
    return read_distribution(pa.table({**columns, "illness": value.ravel().astype(str), "count": counts}), "illness")


def test_numbers_are_ordered_as_numbers_and_rows_in_any_order_are_the_same() -> None:
    rows = table(age=["10", "9", "9", "100"], sex=["m", "m", "f", "f"], s=["x", "y", "x", "y"], count=[1, 2, 3, 4])
    read = read_distribution(rows, "s")
    assert read.quasi_values == (("9", "10", "100"), ("f", "m"))
    assert [column.tolist() for column in read.points] == [[0, 0, 1, 2], [0, 1, 1, 0]]
    assert read.weights.tolist() == [3, 2, 1, 4]
    again = read_distribution(rows.take([3, 1, 0, 2]), "s")
    assert again.weights.tolist() == read.weights.tolist()
    other = read_distribution(rows, "s", attributes=["sex", "age"])
    assert [column.tolist() for column in other.points] == [[0, 0, 1, 1], [0, 2, 0, 1]]


def test_hilbert_keeps_neighbours_together_and_taxonomies_order_by_leaves() -> None:
    x, y = np.indices((4, 4))
    rows = table(x=x.ravel(), y=y.ravel(), s=["v"] * 16, count=list(range(1, 17)))
    read = read_distribution(rows, "s", order="hilbert")
    steps = abs(np.diff(read.points[0])) + abs(np.diff(read.points[1]))
    assert (steps == 1).all()
    assert read.weights.tolist() == (read.points[0] * 4 + read.points[1] + 1).tolist()
    tree = from_nested({"any": {"cold": ["winter", "autumn"], "warm": ["summer", "spring"]}})
    rows = table(season=["autumn", "spring", "summer", "winter"], s=["v"] * 4, count=[1, 2, 3, 4])
    read = read_distribution(rows, "s", order="taxonomy", taxonomies={"season": tree})
    assert read.quasi_values == (("winter", "autumn", "summer", "spring"),)
    assert read.weights.tolist() == [4, 1, 3, 2]
    with pytest.raises(InputError, match="'season' has 1 value outside its taxonomy"):
        read_distribution(rows.set_column(0, "season", [["monsoon", "spring", "summer", "winter"]]), "s",
                          order="taxonomy", taxonomies={"season": tree})  # fmt: skip


def test_probabilities_are_exact_decimals() -> None:
    read = read_distribution(
        table(q=[1, 2, 1, 2], s=["x", "x", "y", "y"], probability=["0.1", "0.2", "0.6", "1e-1"]), "s"
    )
    assert greedy_classes(read, 2, Fraction("0.3")).n_classes == 1  # 0.1 + 0.2 is 0.3 here
    assert read.total == 10**18
    for second, total in (("0.4999999995", 10**18), ("0.5000000005", 10**18 + 5 * 10**8)):
        nearly = read_distribution(table(q=[1, 2], s=["x", "y"], probability=["0.5", second]), "s")
        assert nearly.total == total  # what is given is never taken for more
    with pytest.raises(UnreachableError, match="p_l"):
        greedy_classes(read, 2, Fraction("0.3000001"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"q": [1, 2], "s": ["x", "y"], "probability": [0.5, 0.4999]}, "'probability' .* sums to 0.9999"),
        ({"q": [1, 2], "s": ["x", "y"], "probability": [1.5, 0.5]}, "'probability' .* 1 of 2 values are above 1"),
        ({"q": [1, 2], "s": ["x", "y"], "probability": [1.5, -0.5]}, "'probability' .* 1 of 2 values are negative"),
        ({"q": [1, 2], "s": ["x", "y"], "count": [3, -1]}, "'count' .* 1 of 2 values are negative"),
        ({"q": [1, 2], "s": ["x", "y"], "count": ["3", "many"]}, "'count' .* 1 of 2 values are not whole numbers"),
        ({"q": [1, 2], "s": ["x", "y"], "count": [0, 0]}, "0 in all rows"),
        ({"q": [1, 1], "s": ["x", "x"], "count": [3, 1]}, "repeats combinations of 'q' and 's' in 1 rows; add"),
        ({"q": [1, None], "s": ["x", "y"], "count": [3, 1]}, "'q' .* lacks a value in 1 of 2 rows"),
        ({"q": [1, 2], "s": ["x", None], "count": [3, 1]}, "'s' .* lacks a value in 1 of 2 rows"),
        ({"q": [1, 2], "s": ["x", "y"], "count": [3, None]}, "'count' .* lacks a value in 1 of 2 rows"),
        ({"q": [1, 2], "s": ["x", "y"]}, "needs a column `count` or a column `probability`; it has neither"),
        ({"q": [1], "s": ["x"], "count": [1], "probability": [1.0]}, "both"),
        ({"s": ["x", "y"], "count": [3, 1]}, "no quasi column"),
        ({"class": [1, 2], "s": ["x", "y"], "count": [3, 1]}, "a column 'class'.*rename"),
        ({"q": [1, 2], "t": ["x", "y"], "count": [3, 1]}, "'s' is not in"),
        ({"q": [1, 2], "s": ["x", "y"], "count": [2**62, 2**62]}, "2\\^62"),
        ({"q": pa.array([], pa.int64()), "s": pa.array([], pa.string()), "count": pa.array([], pa.int64())}, "no rows"),
    ],
)
def test_unclear_distributions_are_refused_by_column(columns: dict, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_distribution(pa.table(columns), "s")
    assert "many" not in str(caught.value)


def test_limits_of_l_p_delta_and_eta() -> None:
    read = known()
    wrong: list[tuple[dict, str]] = [
        ({"promise": 7, "p": Fraction("0.001")}, "l = 7 is more than the 6 values"),
        ({"promise": 0, "p": Fraction("0.001")}, "at least 1"),
        ({"promise": 2, "p": Fraction("0.5")}, "p_l"),
        ({"promise": 2, "p": Fraction(0)}, "above 0"),
        ({"promise": 2, "p": Fraction("0.01"), "eta": Fraction("0.01")}, "not above eta"),
        ({"promise": 2, "p": Fraction("0.01"), "eta": Fraction(-1)}, "eta must be"),
        ({"promise": 2, "samples": 3}, "3 samples are too few .* at least"),
        ({"promise": 2, "samples": 300, "p": Fraction("0.01")}, "not both"),
        ({"promise": 2, "samples": 500, "eta": Fraction("0.9")}, "not above eta"),
    ]
    for given, said in wrong:
        with pytest.raises(ShoalError, match=said):
            make_plan(read, delta=DELTA, **given)
    for delta in (Fraction(0), Fraction(1), Fraction(-1), Fraction(2)):
        with pytest.raises(UsageError, match="delta must be above 0 and below 1"):
            make_plan(read, promise=2, delta=delta, p=Fraction("0.01"))


def test_a_plan_is_read_back_and_an_altered_one_is_refused(tmp_path: Path) -> None:
    plan = make_plan(known(), promise=3, delta=DELTA, samples=600, arrangement="gathered")
    write_plan(plan, tmp_path / "plan.json")
    agreed = read_plan(tmp_path / "plan.json")
    assert agreed.number.tolist() == plan.classes.number.tolist()
    assert (agreed.promise.least, agreed.n, agreed.n_tight, agreed.delta) == (3, plan.n, plan.n_tight, 0.01)
    assert agreed.promise == Promise("l-delta-diversity", 3)
    assert agreed.values.tolist() == plan.classes.values.tolist()
    assert agreed.records == agreed.n
    assert Fraction(agreed.p) <= plan.p
    assert agreed.quasi == ("age", "sex")
    document = json.loads((tmp_path / "plan.json").read_text())
    for key in set(document) - {"digest", "kind", "format"}:
        altered = {**document, key: 1 if document[key] != 1 else 2}
        with pytest.raises(InputError, match="altered"):
            check_plan(altered, "plan.json")
    with pytest.raises(UsageError, match="exists already"):
        write_plan(plan, tmp_path / "plan.json")


def test_a_plan_that_contradicts_itself_is_refused_in_spite_of_a_right_digest() -> None:
    document = plan_document(make_plan(known(), promise=3, delta=DELTA, samples=600))
    check_plan(document, "plan.json")
    points, runs, values = document["points"], document["runs"], document["values"]
    changes = (
        {"runs": runs[:-1]}, {"runs": [*runs[:-1], [99, runs[-1][1]]]}, {"points": [points[0], points[0]]},
        {"points": [[0] * len(points[0]), points[1]]}, {"points": [points[0]]}, {"delta": 1},
        {"eta": 1}, {"n": document["n_tight"] - 1}, {"classes": 10**6}, {"quasi": []}, {"sensitive": 5},
        {"p": None}, {"extra": 1}, {"runs": "no"}, {"runs": [[1.5, 30]]}, {"p": "0.1"}, {"classes": 10**15},
        {"runs": [[1, 2**62], [1, 2**62], [1, 2**62], [1, 2**62 + len(points[0])]], "classes": 1},
        {"records": document["n"] + 1}, {"records": True}, {"records": float(document["n"])},
        {"promise": {"model": "l-delta-diversity", "l": 2}}, {"promise": {"model": "l-delta-diversity", "l": 3.0}},
        {"promise": {"model": "l-delta-diversity", "k": 3}}, {"promise": {"model": "other", "l": 3}},
        {"promise": {"model": "l-delta-diversity", "l": 3, "k": 3}}, {"promise": {"l": 3}}, {"promise": None},
        {"promise": {"model": "k-delta-anonymity", "k": 3}}, {"promise": {"model": ["l"], "l": 3}},
        {"values": []}, {"values": values[1:]}, {"values": [values[0][::-1], *values[1:]]},
        {"values": [[0, 1, 6], *values[1:]]}, {"values": [[-1, 0, 1], *values[1:]]},
        {"values": [[0, 0, 1], *values[1:]]}, {"values": [each[:2] for each in values]},
        {"sensitive": {**document["sensitive"], "name": "age"}},
        {"sensitive": {**document["sensitive"], "name": 5}},
    )  # fmt: skip
    for change in changes:
        altered = {**document, **change}
        altered["digest"] = digest_plan(altered)
        with pytest.raises(InputError, match=r"contradicts itself|keys of a plan"):
            check_plan(altered, "plan.json")
    for content in ([], {}, None, "plan", {"kind": document["kind"], "format": 9}):
        with pytest.raises(InputError):
            check_plan(content, "plan.json")


def test_wrong_mixes_of_promises_are_refused() -> None:
    read = known()
    k4, e2 = Promise("k-delta-anonymity", 4), Promise("entropy-l-delta-diversity", 2)
    wrong: list[tuple[dict, str]] = [
        ({"promise": k4, "arrangement": "gathered"}, "'gathered' is for l-diversity only"),
        ({"promise": e2, "arrangement": "independent"}, "'independent' is for l-diversity only"),
        ({"promise": e2, "eta": Fraction("0.001")}, "cannot be carried through to entropies"),
        ({"promise": k4, "p": Fraction(2)}, "at most 1"),
        ({"promise": k4, "samples": 3}, "3 samples are too few"),
        ({"promise": k4, "samples": 0}, "at least 1"),
        ({"promise": e2, "samples": 30}, "30 samples are too few"),
        ({"promise": Promise("entropy-l-delta-diversity", 6)}, "no class can be sure of l = 6"),
        ({"promise": k4, "samples": 500, "eta": Fraction("0.9999")}, "too few"),
    ]
    for given, said in wrong:
        with pytest.raises(ShoalError, match=said):
            make_plan(read, delta=DELTA, **given)
    entropy, values = "entropy-l-delta-diversity", "l-delta-diversity"
    for model, least in (("k-delta-anonymity", 2.0), (values, True), ("other", 2), (values, 0), (entropy, float("nan")),
                         (entropy, 0.5)):  # fmt: skip
        with pytest.raises(UsageError):
            Promise(model, least)


def test_the_command_writes_a_plan_and_says_its_numbers(tmp_path: Path) -> None:
    read = known()
    point = np.repeat(np.arange(read.n_points), np.diff(read.starts))
    columns = {
        name: np.array(values)[codes[point]]
        for name, values, codes in zip(read.quasi, read.quasi_values, read.points, strict=True)
    }
    illness = np.array(read.sensitive_values)[read.codes]
    pq.write_table(pa.table({**columns, "illness": illness, "count": read.weights}), tmp_path / "counts.parquet")
    call = ["agency", "plan", "--counts", str(tmp_path / "counts.parquet"), "--sensitive", "illness", "--l", "3"]
    plan = str(tmp_path / "plan.json")
    done = CliRunner().invoke(app, [*call, "--delta", "0.01", "--p", "0.005", "-o", plan, "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    expected = make_plan(read, promise=3, delta=DELTA, p=Fraction("0.005"))
    assert (said["n"], said["n_tight"], said["p"]) == (expected.n, expected.n_tight, 0.005)
    assert said["classes"] == expected.classes.n_classes
    assert said["m"] == pytest.approx(float(expected.m))
    assert said["digest"] == read_plan(Path(plan)).digest
    again = CliRunner().invoke(app, [*call, "--delta", "0.01", "--p", "0.005", "-o", plan])
    assert again.exit_code == 2
    asked = ["--samples", "600", "--failure-at", "100"]
    people = CliRunner().invoke(app, [*call, "--delta", "0.01", *asked, "-o", str(tmp_path / "b.json")])
    assert "With 100 records, a release breaks the promise with probability" in people.output
    assert "Each owner must have" in people.stdout
    assert f"Each owner must have {said['n']:,} records" not in people.stdout
    shorter = call[:-2]
    for options, model in (
        (["--promise", "k-anonymity", "--k", "5"], "k-delta-anonymity"),
        (["--promise", "entropy", "--l", "2.5", "--samples", "20000"], "entropy-l-delta-diversity"),
        (["--l", "3", "--samples", "600", "--records", "tight"], "l-delta-diversity"),
        (["--promise", "k-anonymity", "--k", "4", "--records", "linked"], "k-delta-anonymity"),
    ):
        name = str(tmp_path / f"{model}-{options[-1]}.json")
        done = CliRunner().invoke(app, [*shorter, "--delta", "0.01", *options, "-o", name])
        assert done.exit_code == 0, done.output
        agreed = read_plan(Path(name))
        assert agreed.promise.model == model
        assert f"Each owner must have {agreed.records:,} records" in done.stdout
        assert ("Linked releases leave 4 records in every class" in done.stdout) == ("linked" in options)
    for options in (["--k", "5"], ["--promise", "k-anonymity", "--l", "5"], ["--promise", "entropy"], ["--l", "2.5"],
                    ["--l", "3", "--k", "3"], ["--promise", "t", "--l", "3"],
                    ["--l", "3", "--records", "few"], ["--l", "3", "--records", "linked"],
                    ["--promise", "k-anonymity", "--k", "4", "--records", "linked", "--failure-at", "9"]):  # fmt: skip
        failed = CliRunner().invoke(app, [*shorter, "--delta", "0.01", *options, "-o", str(tmp_path / "none.json")])
        assert failed.exit_code == 2, options
        assert not (tmp_path / "none.json").exists()
    for options, code in ((["--delta", "x"], 2), (["--delta", "0.01", "--p", "0.9"], 3), (["--delta", "1"], 2)):
        failed = CliRunner().invoke(app, [*call, *options, "-o", str(tmp_path / "none.json")])
        assert failed.exit_code == code
        assert not (tmp_path / "none.json").exists()


def test_keys_of_huge_domains_still_sort_as_their_columns() -> None:
    from shoal.core.kernels import pack

    rng = np.random.default_rng(2)
    columns = [rng.integers(0, 3, size=200) * (2**40 - 1) // 2 for _ in range(4)]
    key = pack(columns, [2**40] * 4)  # 160 bits do not fit into one word
    order = np.lexsort(columns[::-1])
    assert (np.diff(key[order]) >= 0).all()
    assert len(np.unique(key)) == len({tuple(row) for row in np.stack(columns, axis=1).tolist()})


def test_failures_for_other_numbers_of_records() -> None:
    read = known()
    plan = make_plan(read, promise=Promise("k-delta-anonymity", 4), delta=DELTA, samples=600)
    assert plan.failure(plan.n) <= DELTA < plan.failure(plan.n - 1)
    assert plan.failure(0) == 1
    varied = make_plan(read, promise=Promise("entropy-l-delta-diversity", 2), delta=DELTA, p=Fraction("0.2"))
    with pytest.raises(UsageError, match="no bound for other numbers"):
        varied.failure(varied.n)
    for each in (plan, make_plan(read, promise=3, delta=DELTA, samples=600)):
        with pytest.raises(UsageError, match="at least 0"):
            each.failure(-1)
