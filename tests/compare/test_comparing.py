"""Comparisons: who is put aside, what is refused, what stays behind, and what files say."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from experiments import comparison_pages
from shoal.attacks.base import NO_CONTROL
from shoal.compare import compare as trying
from shoal.compare.compare import compare
from shoal.compare.result import RISKS, Comparison
from shoal.compare.writing import Wanted, markdown_page, reading
from shoal.core.errors import InputError, PolicyError, UnreachableError, UsageError, VerificationError
from shoal.policy.policy import Policy

POLICY: dict[str, Any] = {
    "attributes": {
        "name": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 20, "max": 69, "widths": [10]}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}],
}


def people(n: int = 300, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    common = np.where(sex == "F", "flu", "gout")
    return pa.table(
        {
            "name": [f"{seed}/{i}" for i in range(n)],
            "age": rng.integers(20, 70, n),
            "sex": sex,
            "illness": np.where(rng.random(n) < 0.7, common, rng.choice(["flu", "gout", "rash"], n)),
        }
    )


@pytest.fixture(scope="module")
def small() -> Comparison:
    return compare(people(), POLICY, techniques="original,hashing,k-anonymity,differential-privacy", seed=1, targets=40)


class _Seen:
    """Looks on while releases are made."""

    def __init__(self) -> None:
        self.names: list[set[str]] = []
        self.keys: list[tuple[Path, int, int]] = []

    def __call__(self, data: pa.Table, policy: Any, **options: Any) -> Any:
        self.names.append(set(data.column("name").to_pylist()))
        technique = policy.attributes["name"].technique
        if technique is not None:
            key = Path(technique.key)
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (key, key.parent)]
            self.keys.append((key, *modes))
        return self.real(data, policy, **options)

    real = staticmethod(trying.make_release)


def test_those_who_are_put_aside_are_in_no_release_and_are_the_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, controls = _Seen(), []
    attack = trying.attack

    def attacked(release: Any, source: pa.Table, control: pa.Table, **options: Any) -> Any:
        controls.append((set(source.column("name").to_pylist()), set(control.column("name").to_pylist())))
        return attack(release, source, control, **options)

    monkeypatch.setattr(trying, "make_release", seen)
    monkeypatch.setattr(trying, "attack", attacked)
    found = compare(people(), POLICY, techniques=["original", "k-anonymity"], hold_out=0.3, targets=40)
    everybody = set(people().column("name").to_pylist())
    for released, (source, control) in zip(seen.names, controls, strict=True):
        assert released == source
        assert len(control) == 90
        assert not released & control
        assert released | control == everybody
    assert seen.names[0] == seen.names[1]
    assert (found.records, found.control, found.held_out) == (210, 90, 0.3)
    assert "90 of 300 records, drawn at random" in found.notes[0]


def test_who_is_put_aside_is_chance_unless_there_is_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for seed in (None, None, 5, 5):
        seen = _Seen()
        monkeypatch.setattr(trying, "make_release", seen)
        compare(people(), POLICY, techniques=["original"], targets=20, seed=seed)
        drawn.append(seen.names[0])
    assert drawn[0] != drawn[1]
    assert drawn[2] == drawn[3]


def test_the_key_of_pseudonyms_is_its_owners_alone_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _Seen()
    monkeypatch.setattr(trying, "make_release", seen)
    found = compare(people(), POLICY, techniques=["pseudonymisation"], targets=20)
    ((key, mode, folder_mode),) = seen.keys
    assert (mode, folder_mode) == (0o600, 0o700)
    assert not key.exists()
    assert not key.parent.exists()
    assert str(key.parent) not in repr(found.as_dict())
    assert tempfile.gettempdir() not in repr(found.as_dict())


def test_the_key_is_removed_after_a_failure_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def broken(*_: Any, **__: Any) -> Any:
        assert list(tmp_path.iterdir())
        raise RuntimeError

    monkeypatch.setattr(trying, "make_release", broken)
    with pytest.raises(RuntimeError):
        compare(people(), POLICY, techniques=["pseudonymisation"], targets=20)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [UnreachableError, VerificationError, InputError, PolicyError])
def test_a_release_that_cannot_be_made_is_a_row_with_its_reason(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise error("too much is asked for")

    monkeypatch.setattr(trying, "make_release", refused)
    (row,) = compare(people(), POLICY, techniques=["k-anonymity"], targets=20).rows
    assert row.reason == "too much is asked for"
    assert set(row.as_dict()) == {"name", "title", "parameters", "opinion", "reason"}
    assert row.flat()["singling_out_value"] is None


def test_an_unreachable_requirement_is_told() -> None:
    asked = {**POLICY, "privacy": [{"k-anonymity": {"k": 1000}}]}
    (row,) = compare(people(), asked, seed=1, targets=20).rows
    assert row.reason is not None
    assert "1000" in row.reason.replace(",", "")


def test_policies_are_compared_row_by_row(tmp_path: Path) -> None:
    stronger = {**POLICY, "privacy": [{"k-anonymity": {"k": 20}}]}
    found = compare(people(), POLICY, stronger, seed=1, targets=40)
    assert [row.name for row in found.rows] == ["policy 1", "policy 2"]
    assert [row.opinion("inference") for row in found.rows] == [None, None]
    assert found.rows[0].guarantees[0]["achieved"] < found.rows[1].guarantees[0]["achieved"]
    assert found.rows[0].kept.release > found.rows[1].kept.release


def test_policies_compare_what_both_publish() -> None:
    hidden = {**POLICY, "attributes": {**POLICY["attributes"], "age": {"role": "identifier"}}}
    found = compare(people(), POLICY, hidden, seed=1, targets=40)
    assert [row.reason for row in found.rows] == [None, None]
    assert [row.kept.n_all for row in found.rows] == [1, 1]  # sex and illness


def test_a_control_table_may_be_given() -> None:
    found = compare(people(), POLICY, techniques=["original"], control=people(200, 2), seed=1, targets=40)
    assert (found.records, found.control, found.held_out) == (300, 200, None)
    assert "table that was given" in found.notes[0]
    with pytest.raises(InputError, match="the control table has no column 'illness'"):
        compare(people(), POLICY, techniques=["original"], control=people(200, 2).drop(["illness"]), seed=1)


def test_without_control_the_comparison_says_what_that_means() -> None:
    found = compare(people(), POLICY, techniques=["original"], hold_out=0, seed=1, targets=40)
    assert (found.records, found.control, found.held_out) == (300, 0, None)
    assert found.notes[0] == NO_CONTROL
    assert found.rows[0].risks["inference"].control is None


@pytest.mark.parametrize(
    ("arguments", "options", "stated"),
    [
        ((), {}, "at least one policy"),
        ((POLICY, POLICY), {"techniques": "all"}, "one policy"),
        ((POLICY,), {"techniques": "nois"}, "did you mean 'noise'"),
        ((POLICY,), {"techniques": []}, "at least one technique"),
        ((POLICY,), {"hold_out": 1.0}, "from 0 to below 1"),
        ((POLICY,), {"hold_out": -0.1}, "from 0 to below 1"),
        ((POLICY,), {"hold_out": 0.0001}, "leaves one side empty"),
        ((POLICY,), {"hold_out": 0.1, "control": people(seed=2)}, "choose one"),
    ],
    ids=[
        "no policy",
        "two policies",
        "unknown",
        "none",
        "all aside",
        "negative",
        "nobody aside",
        "two ways",
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: tuple[Any, ...], options: dict[str, Any], stated: str) -> None:
    with pytest.raises(UsageError, match=stated):
        compare(people(), *arguments, **options)


def test_seeds_repeat_all_but_time() -> None:
    def stated() -> list[dict[str, Any]]:
        found = compare(people(), POLICY, techniques="original,noise,anatomy", seed=4, targets=40)
        return [{**row.as_dict(), "seconds": None} for row in found.rows]

    assert stated() == stated()


def test_the_page_has_every_row_and_every_reason(small: Comparison) -> None:
    text = markdown_page(small, "A | title", "figures/x.svg")
    assert "![Risk against utility](figures/x.svg)" in text
    for row in small.rows:
        assert row.name in text
    assert "- **differential-privacy**: the values of sex, illness are not declared" in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count(" | ") for line in tables} == {5, 6}
    assert text.count("| original |") == 3  # risks, what is kept, the ranking
    for line in reading(small):
        assert line in text


def test_files_are_refused_before_any_work(tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("")
    with pytest.raises(UsageError, match="exists already"):
        Wanted(csv=there).check()
    with pytest.raises(UsageError, match=r"must end in \.svg"):
        Wanted(frontier=tmp_path / "frontier.png").check()
    with pytest.raises(UsageError, match="does not exist"):
        Wanted(markdown=tmp_path / "nowhere" / "page.md").check()


def test_the_pages_of_the_documentation_are_written_anew(
    small: Comparison, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[pa.Table, Policy]] = []

    def answered(data: pa.Table, policy: dict[str, Any], **_: Any) -> Comparison:
        asked.append((data, Policy.load(policy)))
        return small

    monkeypatch.setattr(comparison_pages, "compare", answered)
    for _ in range(2):
        comparison_pages.write_pages(tmp_path / "docs", shared_data)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        *("comparison-adult.md", "comparison-adult.svg", "comparison-demo.md", "comparison-demo.svg", "comparison.md")
    ]
    page = (tmp_path / "docs" / "comparison.md").read_text(encoding="utf-8")
    for label, row in zip(small.labels, small.rows, strict=True):
        assert (f"| {label} |" in page) is (row.reason is None)
    for data, policy in asked:
        assert set(data.column_names) == set(policy.attributes)
        assert all(policy.attributes[name].taxonomy is not None for name in policy.names("quasi"))


def _compare_samples(table: pa.Table, policy: dict[str, Any]) -> None:
    """Hold a sample against the whole table and against classes, as a statistician would."""
    found = compare(table, policy, techniques="original,sampling,k-anonymity", seed=1)
    original, sampling, _ = found.rows
    for risk in RISKS:
        whole, part = original.trials(risk), sampling.trials(risk)
        assert whole is not None
        assert part is not None
        assert part.risk.high >= 0.75 * whole.risk.low, risk
    stands = found.standings()
    assert "sampling" not in stands[2].dominated_by
    assert stands[1].risk.value > stands[2].risk.high
    assert stands[1].rank > stands[2].rank


def test_a_sample_has_the_risk_of_the_sampled_and_never_dominates_a_promise() -> None:
    rng = np.random.default_rng(1)
    n = 6000
    town = rng.choice(40, n, p=(weights := 1 / np.arange(1, 41)) / weights.sum())
    table = pa.table(
        {
            "age": np.clip(rng.normal(45, 15, n).round(), 18, 90).astype(int),
            "town": [f"town {code}" for code in town],
            "job": [f"job {code}" for code in (town + rng.integers(0, 12, n)) % 20],
            "illness": rng.choice(["asthma", "flu", "gout", "migraine", "rash"], n),
        }
    )
    ages = {"intervals": {"min": 18, "max": 90, "widths": [10, 30]}}
    attributes: dict[str, Any] = {name: {"role": "quasi"} for name in ("age", "town", "job")}
    attributes |= {"illness": {"role": "sensitive"}, "age": {"role": "quasi", "taxonomy": ages}}
    _compare_samples(table, {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 10}}]})
