"""The sweep: refusals, warnings, weights, locked attributes, the last class, odd tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.tables import cover
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import PolicyError, ShoalError, UnreachableError
from shoal.core.progress import Silent
from shoal.methods.sweep import SequentialSweep, classes
from shoal.methods.sweep.closing import Remainder
from shoal.methods.sweep.rules import Models
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import KEPT
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_nested
from shoal.verify.verifier import verify_table

TREE = {"any": {"low": ["u", "v"], "high": ["w", "x"]}}


def tau_l(tau: float = 0.5, l: int = 2, **more: Any) -> dict[str, Any]:
    return {"tau-l-diversity": {"tau": tau, "l": l, **more}}


def policy(privacy: list[dict[str, Any]], improve: bool = True, **options: Any) -> dict[str, Any]:
    sensitive = options.pop("sensitive", {"s": TREE})
    entries = {
        name: {"role": "sensitive"} | ({"taxonomy": {"tree": tree}} if tree else {}) for name, tree in sensitive.items()
    }
    quasi = {"q": {"role": "quasi", "taxonomy": {"tree": {"*": {"ab": ["a", "b"], "cd": ["c", "d"]}}}}}
    return {"attributes": quasi | entries, "privacy": privacy, "method": {"sweep": {"improve": improve}}, **options}


def table(n: int = 40, seed: int = 1, skew: float = 0.5, **more: list[Any]) -> pa.Table:
    rng = np.random.default_rng(seed)
    rest = (1 - skew) / 3
    columns = {
        "q": rng.choice(list("abcd"), n).tolist(),
        "s": ["u", "v", "w", "x", *rng.choice(list("uvwx"), n - 4, p=[skew, rest, rest, rest]).tolist()],
    }
    return pa.table(columns | more)


def problem_of(rows: list[tuple[int, int]], counts: list[int], model: TauLDiversity, tree: Any) -> Problem:
    quasi, sensitive = from_nested({"*": ["a", "b", "c", "d"]}), from_nested(tree)
    q, s = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    cells = Cells((q, s), np.array(counts, dtype=np.int64))
    requirement = Requirement(model, 0, s, sensitive.n_leaves, sensitive, place=0)
    return Problem((Attribute("q", quasi),), (Attribute("s", sensitive),), cells, (requirement,))


def wide_people(n: int, width: int) -> pa.Table:
    """Two groups that answer most questions alike, and single ones differently."""
    rng = np.random.default_rng(3)
    group, differs = rng.integers(2, size=n), rng.random((width, n)) < 0.05
    answers = {f"q{i}": np.where(row, 1 - group, group).astype(str) for i, row in enumerate(differs)}
    return pa.table(answers | {"s": rng.choice(list("uvwx"), n)})


def wide_policy(width: int, method: dict[str, Any], *models: dict[str, Any]) -> dict[str, Any]:
    document = policy([tau_l(0.6, 3), *models])
    document["attributes"] = {f"q{i}": {"role": "quasi"} for i in range(width)} | {"s": document["attributes"]["s"]}
    return document | {"method": method}


@pytest.mark.parametrize("defend", [False, True])
def test_parts_that_are_passed_over_are_in_no_class_that_closes(monkeypatch: pytest.MonkeyPatch, defend: bool) -> None:
    rng = np.random.default_rng(5)
    people = table(300, p=rng.integers(64, size=300).tolist(), r=rng.integers(64, size=300).tolist())
    document = policy([tau_l(0.5, 3)], improve=False)
    document["method"]["sweep"]["defend"] = defend
    intervals = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 63, "widths": [2, 4, 8, 16, 32]}}}
    document["attributes"] |= {"p": intervals, "r": intervals}
    found = shoal.anonymize(people, document, seed=1).data
    passed_over, seen = [], classes.find_crowded

    def find_all(trees: Any, live: Any, crowd: Any, levels: Any) -> Any:
        passed_over.append(len(live) - len(seen(trees, live, crowd, levels)))
        return live

    monkeypatch.setattr(classes, "find_crowded", find_all)
    assert shoal.anonymize(people, document, seed=1).data == found
    assert sum(passed_over) > 0


def test_classes_of_an_item_are_those_of_equal_labels_that_are_large_enough() -> None:
    uneven = from_nested({"*": {"ab": ["a", "b"], "cdef": {"cd": ["c", "d"], "ef": ["e", "f"]}}})
    rng = np.random.default_rng(1)
    codes = tuple(rng.integers(uneven.n_leaves, size=(3, 400)).astype(np.int32))
    attributes = tuple(Attribute(name, uneven) for name in "pqr")
    problem = Problem(attributes, (), Cells(codes, np.ones(400, dtype=np.int64)), ())
    records, raised, live = rng.integers(1, 4, size=400), rng.random(400) < 0.2, np.arange(0, 400, 2)
    tables = [classes.nodes_at_levels(uneven)] * 3
    for exact, levels in product((True, False), ((3, 3, 3), (2, 3, 1), (0, 2, 2), (1, 1, 0))):
        trees = classes.tree_tables(problem)._replace(exact=exact)
        found, nodes = classes.group_by_label(trees, np.array(levels, dtype=np.int32), live, records, raised, 7, 4)
        members = defaultdict(list)
        for i, part in enumerate(live.tolist()):
            label = tuple(int(tree[level, code[part]]) for tree, level, code in zip(tables, levels, codes, strict=True))
            members[label].append(i)
        expected = {
            label: inside
            for label, inside in members.items()
            if min(label) >= 0 and records[live[inside]].sum() >= (4 if raised[live[inside]].any() else 7)
        }
        assert list(map(tuple, nodes.tolist())) == list(expected)
        assert [np.flatnonzero(found == c).tolist() for c in range(len(nodes))] == list(expected.values())


@pytest.mark.parametrize("privacy", [tau_l(0.5, 3), tau_l(0.4, 4), {"simple-l-diversity": {"l": 2}}])
def test_groups_that_are_passed_over_would_not_close(monkeypatch: pytest.MonkeyPatch, privacy: dict[str, Any]) -> None:
    people = table(600, p=np.random.default_rng(5).integers(64, size=600).tolist(), skew=0.35)
    document = policy([privacy], improve=False)
    intervals = {"intervals": {"min": 0, "max": 63, "widths": [2, 4, 8, 16, 32]}}
    document["attributes"] |= {"p": {"role": "quasi", "taxonomy": intervals}}
    found = shoal.anonymize(people, document, seed=1)
    assert len({*zip(*(found.data[name].to_pylist() for name in "qp"), strict=True)}) > 5
    monkeypatch.setattr(classes, "screen", lambda members, *_: np.ones(len(members.first) - 1, dtype=np.bool_))
    monkeypatch.setattr(Remainder, "smallest_group", lambda remainder: remainder._models.rules.plain_records)
    assert shoal.anonymize(people, document, seed=1).data == found.data


def test_a_value_at_its_base_rate_divides_the_size_of_every_class() -> None:
    rows = [(q, s) for q in range(4) for s in range(3)]
    problem = problem_of(rows, [6, 3, 1] * 4, TauLDiversity(tau=0.5, l=2), {"any": ["u", "v", "w"]})
    assert Models.of(problem, defend=True).rules.plain_records == 5  # 24 of 40 records have the first value
    assert Models.of(problem, defend=False).rules.plain_records == 2


@pytest.mark.parametrize("model", [{"t-closeness": {"t": 0.3}}, {"k-anonymity": {"k": 40}}], ids=str)
def test_wide_tables_keep_other_models_in_larger_groups(model: dict[str, Any]) -> None:
    """Groups of the smallest size would never hold: they are doubled until classes close."""
    release = shoal.anonymize(wide_people(600, 20), wide_policy(20, {"sweep": {}}, model), seed=1)
    assert release.verification.verified
    assert release.utility["um"] > 0.3


def test_a_least_share_of_the_population_is_refused(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(table().select(["q"]), tmp_path / "people.csv")
    share = {"min": 0.1, "max": 1, "population": str(tmp_path / "people.csv")}
    with pytest.raises(ShoalError, match="overlap"):
        shoal.anonymize(table(), policy([{"delta-presence": share}]))
    release = shoal.anonymize(table(), policy([{"delta-presence": share | {"min": 0}}]), seed=1)
    assert release.manifest["rows"] == 40


@pytest.mark.parametrize(
    ("privacy", "says"),
    [
        (tau_l(0.5, 5), "l = 5 but the number of values is only 4.*tau = 0.5 with l = 4"),
        (tau_l(0.2, 4), "at least 0.25, not even if all values become"),
        (tau_l(0.1, 9), "l = 9 but the number of values is only 4.*tau = 0.25 with l = 4"),
        (tau_l(1e-30, 3), "at least 0.25"),
        ({"simple-l-diversity": {"l": 1e30}}, "reach only 2.8"),
        ({"distinct-l-diversity": {"l": 10**20}}, "only 4"),
        ({"alpha-k-anonymity": {"alpha": 1e-30, "k": 2}}, "0.35"),
        ({"k-anonymity": {"k": 10**20}}, "only 40 records"),
    ],
    ids=str,
)
def test_what_cannot_be_reached_names_the_nearest_that_can(privacy: dict[str, Any], says: str) -> None:
    with pytest.raises(UnreachableError, match=says):
        shoal.anonymize(table(), policy([privacy]))


def test_without_a_taxonomy_there_is_a_flat_one_and_a_warning(tmp_path: Path) -> None:
    document = policy([tau_l(0.4, 3)], sensitive={"s": None})
    release = shoal.anonymize(table(skew=0.8), document, seed=1)
    assert "'s' has no taxonomy" in release.evidence["warnings"][1]
    assert "*" in release.data["s"].to_pylist()
    (warning,) = shoal.anonymize(table(skew=0.8), policy([tau_l(0.4, 3)]), seed=1).evidence["warnings"]
    assert "a share of 0.725 of the whole table, which is more than tau = 0.4. No release can hide" in warning
    assert warning.endswith("For more than one class, ask for tau of at least 0.725")
    assert not shoal.anonymize(table(skew=0.3), policy([tau_l(0.4, 3)]), seed=1).evidence["warnings"]
    pyarrow.csv.write_csv(table(skew=0.8), tmp_path / "data.csv")
    (tmp_path / "policy.json").write_text(json.dumps(document))
    arguments = ["anonymize", str(tmp_path / "data.csv"), "-p", str(tmp_path / "policy.json"), "-o"]
    runner = CliRunner(env={"COLUMNS": "200"})
    stated = runner.invoke(app, [*arguments, str(tmp_path / "one")])
    assert stated.exit_code == 0
    assert "Warning: sensitive attribute 's' has no taxonomy" in stated.output
    answered = runner.invoke(app, [*arguments, str(tmp_path / "two"), "--json"])
    assert "has no taxonomy" in json.loads(answered.stdout)["warnings"][1]


def test_a_missing_weight_is_an_error_that_names_no_value() -> None:
    with pytest.raises(PolicyError, match="2 of 4 values of 's' have no weight") as caught:
        shoal.anonymize(table(), policy([tau_l(weights={"u": 1, "v": 2})]))
    assert "'w'" not in str(caught.value)
    with pytest.raises(PolicyError, match="all weights are 0"):
        shoal.anonymize(table(), policy([tau_l(weights=dict.fromkeys("uvwx", 0))]))


def test_a_value_that_an_adversary_rules_out_is_hidden_by_labels() -> None:
    """9 u, 1 v, 1 w with weights 0, 1, 1 and (0.7, 3): labels for some u leave at most 7.7 of 11 records to it."""
    few = pa.table({"q": ["a"] * 11, "s": ["u"] * 9 + ["v", "w"]})
    weights = {"u": 0, "v": 1, "w": 1}
    for defend in (True, False):
        chosen = policy([tau_l(0.7, 3, weights=weights)], method={"sweep": {"defend": defend}}, sensitive={"s": None})
        release = shoal.anonymize(few, chosen, seed=1)
        assert release.manifest["guarantees"][0]["achieved"] <= 0.7
        assert release.data["s"].to_pylist().count("u") <= 7


def test_attributes_of_joint_models_are_never_generalized() -> None:
    jobs = (["cook", "clerk", "smith"] * 20)[:40]
    privacy = [tau_l(0.8, 2, attribute="s"), {"distinct-l-diversity": {"l": 3, "attribute": ["s", "job"]}}]
    document = policy(privacy, sensitive={"s": TREE, "job": None})
    release = shoal.anonymize(table(job=jobs), document, seed=1)
    assert sorted(release.data["s"].to_pylist()) == sorted(table()["s"].to_pylist())
    assert sorted(release.data["job"].to_pylist()) == sorted(jobs)
    with pytest.raises(UnreachableError):
        shoal.anonymize(
            table(skew=0.9, job=jobs),
            policy([tau_l(0.5, 2, attribute="s"), privacy[1]], sensitive={"s": TREE, "job": None}),
        )


OTHERS = [
    {"distinct-l-diversity": {"l": 3}},
    {"simple-l-diversity": {"l": 2}},
    {"entropy-l-diversity": {"l": 2.5}},
    {"recursive-cl-diversity": {"c": 1, "l": 2}},
    {"alpha-k-anonymity": {"alpha": 0.6, "k": 2}},
    {"confidence-bounding": {"most": 0.6}},
    {"confidence-bounding": {"most": 0.6, "harmless": ["x"]}},
]


@pytest.mark.parametrize(("model", "withheld"), cover(OTHERS, [0, 0.01]))
def test_no_value_is_generalized_for_a_model_that_does_not_define_it(model: dict[str, Any], withheld: float) -> None:
    """Nearly all accidents are slight: a star instead of that word would be read by everybody."""
    accidents = pa.table({"q": list("abcd") * 100, "s": ["u"] * 396 + ["v"] * 4})
    with pytest.raises(UnreachableError, match=r"on 's': .*(0\.99|only 2|1\.0|99|5\d)"):
        shoal.anonymize(accidents, policy([model], max_withheld=withheld))


@pytest.mark.parametrize("model", [*OTHERS, {"t-closeness": {"t": 0.2}}, {"beta-likeness": {"beta": 2}}], ids=str)
def test_beside_another_model_of_values_nothing_is_generalized(model: dict[str, Any]) -> None:
    data = table(200, 2, skew=0.4)
    release = shoal.anonymize(data, policy([tau_l(0.6, 3), model]), seed=1)
    assert sorted(release.data["s"].to_pylist()) == sorted(data["s"].to_pylist())
    with pytest.raises(UnreachableError, match=r"tau-l-diversity on .s.: .* ask for a tau of at least 0\.8"):
        shoal.anonymize(table(200, 2, skew=0.8), policy([tau_l(0.6, 3), {"t-closeness": {"t": 0.5}}]))


def test_the_verifier_refuses_generalized_values_under_another_model() -> None:
    release = shoal.anonymize(table(skew=0.8), policy([tau_l(0.5, 3)]), seed=1)
    for model in [*OTHERS, {"t-closeness": {"t": 1}}, {"beta-likeness": {"beta": 99}}]:
        ((name, parameters),) = model.items()
        promise = {"model": name, "parameters": parameters, "achieved": 0.5}
        found = verify_table(release.data, release.manifest | {"guarantees": [promise]})
        assert found.verdict == "failed", name
        assert "only tau-l-diversity allows" in found.guarantees[0].detail


def test_what_is_not_met_without_some_records_is_refused() -> None:
    data = pa.table({"q": list("abcd") * 25, "s": ["u"] * 52 + ["v"] * 48})
    asked = [{"simple-l-diversity": {"l": 2}}]
    with pytest.raises(UnreachableError, match=r"reach only 1\.92"):
        shoal.anonymize(data, policy(asked))
    with pytest.raises(UnreachableError, match=r"reach only 1\.92"):  # who is absent would have the frequent value
        shoal.anonymize(data, policy(asked, max_withheld=0.05))
    paper = policy(asked, max_withheld=0.05) | {"method": {"sweep": {"defend": False}}}
    with pytest.raises(UnreachableError, match="records cannot be withheld instead"):
        shoal.anonymize(data, paper, seed=1)


@pytest.mark.parametrize("budget", [0, 0.1])
def test_too_few_leftovers_are_withheld_or_others_join_them(budget: float) -> None:
    lonely = pa.table({"q": ["a"] * 10 + ["b"] * 9 + ["c"], "s": ["u", "v"] * 10})
    release = shoal.anonymize(lonely, policy([{"k-anonymity": {"k": 4}}], max_withheld=budget), seed=1)
    sizes = release.data.group_by("q").aggregate([([], "count_all")])["count_all"].to_pylist()
    assert min(sizes) >= 4
    assert release.manifest["withheld"] == (1 if budget else 0)
    assert release.manifest["rows"] == (19 if budget else 20)


def test_what_it_tells_as_generalized_is_what_is_published() -> None:
    """Records that are withheld do not count, whatever had been done to their values."""
    privacy = [tau_l(0.5, 3), {"k-anonymity": {"k": 6}}]
    paper = policy(privacy, max_withheld=0.2) | {"method": {"sweep": {"defend": False}}}
    release = shoal.anonymize(table(40, 26, skew=0.7), paper, seed=26)
    published = sum(text in ("low", "high", "any") for text in release.data["s"].to_pylist())
    assert release.evidence["search"]["generalized"] == {"s": published}
    assert release.manifest["withheld"] > 0
    assert release.evidence["search"]["generalized_before"]["s"] > 0


def test_population_models_count_people_under_the_labels(tmp_path: Path) -> None:
    people = pa.table({"q": ["a"] * 12 + ["b"] * 3 + ["c"] * 2 + ["d"] * 9})
    pyarrow.csv.write_csv(people, tmp_path / "people.csv")
    model = {"k-map": {"k": 10, "population": str(tmp_path / "people.csv")}}
    release = shoal.anonymize(table(), policy([model]), seed=1)
    below = {"a": 12, "ab": 15, "cd": 11, "*": 26}
    assert set(release.data["q"].to_pylist()) <= set(below)
    assert "a" in release.data["q"].to_pylist()


def test_a_class_of_raised_records_may_be_smaller_than_one_of_plain_ones() -> None:
    """Two cells of one generalized record each: together they hold, though neither alone is k records."""
    model = TauLDiversity(tau=0.25, l=4)
    rows = [(q, s) for q in range(4) for s in range(4)]
    problem = problem_of(rows, [4, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1], model, {"any": ["u", "v", "w", "x"]})
    plan = SequentialSweep(improve=False, defend=False).plan(problem, np.random.default_rng(1), Silent())
    assert plan.targets is not None
    assert (plan.targets.lo != KEPT).any()
    assert plan.sizes.min() < 4


@pytest.mark.parametrize(
    "privacy",
    [
        [{"k-anonymity": {"k": 4}}],
        [{"distinct-l-diversity": {"l": 3}}],
        [{"simple-l-diversity": {"l": 1.5}}, {"k-anonymity": {"k": 5}}],
        [tau_l(0.5, 3), {"k-anonymity": {"k": 5}}],
    ],
    ids=str,
)
def test_what_the_whole_table_meets_is_never_refused(privacy: list[dict[str, Any]]) -> None:
    for seed in range(6):
        release = shoal.anonymize(table(22, seed, skew=0.5), policy(privacy, improve=seed % 2 == 1), seed=seed)
        assert release.manifest["rows"] == 22
        assert release.manifest["withheld"] == 0


def crowd(seed: int = 1, n: int = 1000) -> pa.Table:
    """Seven of ten have one value, as with German credit."""
    rng = np.random.default_rng(seed)
    values = rng.choice(list("uvwx"), n, p=[0.7, 0.1, 0.1, 0.1])
    return pa.table({"q": rng.choice(list("abcd"), n).tolist(), "s": values.tolist(), "row": range(n)})


def under_labels(data: pa.Table, release: Any) -> dict[tuple[str, str], Counter[str]]:
    """The true values of the records under each label of each class."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    own = dict(zip(data["row"].to_pylist(), data["s"].to_pylist(), strict=True))
    for record in release.data.to_pylist():
        if record["s"] in ("low", "high", "any"):
            found[record["q"], record["s"]][own[record["row"]]] += 1
    return found


def with_rows(*args: Any, **options: Any) -> dict[str, Any]:
    document = policy(*args, **options)
    document["attributes"]["row"] = {"role": "insensitive"}
    return document


@pytest.mark.parametrize(("improve", "tau", "l"), cover([False, True], [(0.5, 2), (0.4, 3), (0.3, 4)], names=(1, 2)))
def test_labels_tell_no_more_than_tau_or_the_base_rate(improve: bool, tau: float, l: int) -> None:
    data = crowd(l)
    base = Counter(data["s"].to_pylist())
    release = shoal.anonymize(data, with_rows([tau_l(tau, l)], improve), seed=l)
    found = under_labels(data, release)
    assert found
    for counts in found.values():
        for value, n in counts.items():
            assert n <= max(Fraction(str(tau)), Fraction(base[value], 1000)) * counts.total()
    assert release.manifest["attributes"]["s"]["defended"] is True
    assert any(check.name == "defended" and check.ok for check in release.verification.checks)
    assert not release.evidence["search"].get("people_revealed")


def test_labels_of_the_papers_algorithm_give_people_away_and_that_is_a_finding() -> None:
    data, document = crowd(), with_rows([tau_l(0.5, 2)])
    document["method"]["sweep"]["defend"] = False
    release = shoal.anonymize(data, document, seed=1)
    certain = sum(counts.total() for counts in under_labels(data, release).values() if len(counts) == 1)
    assert certain > 300
    assert "defended" not in release.manifest["attributes"]["s"]
    (finding,) = [one for one in release.evidence["findings"] if one["id"] == "method-reveals"]
    assert finding["severity"] == "high"
    assert finding["about"] == ["s"]


def test_no_more_values_are_generalized_than_the_policy_allows() -> None:
    data, asked = crowd(), [tau_l(0.6, 3)]
    with pytest.raises(UnreachableError, match=r"max_generalized of 's' is 0\.1, but \d+ of 1,000 records"):
        shoal.anonymize(data, with_rows(asked, max_generalized={"s": 0.1}), seed=1)
    release = shoal.anonymize(data, with_rows(asked, max_generalized={"s": 0.4}), seed=1)
    assert 0 < release.evidence["generalized_sensitive"]["s"] <= 400
    fewer = with_rows([tau_l(0.69, 3)], max_generalized={"s": 0}, max_withheld=0.2)
    release = shoal.anonymize(data, fewer, seed=1)
    assert not release.evidence["generalized_sensitive"]
    assert release.manifest["withheld"] == 0
    release = shoal.anonymize(data, fewer | {"method": {"sweep": {"defend": False}}}, seed=1)
    assert not release.evidence["generalized_sensitive"]
    assert release.manifest["withheld"] == 0
