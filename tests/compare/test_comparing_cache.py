"""Figures that a comparison keeps: what is found again, what is made anew, and whom the folder belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import tables

import shoal
from shoal.compare import cache as caching
from shoal.compare import cache as keys
from shoal.compare import compare as trying
from shoal.compare.cache import Cache, Figures, Memory, default_folder, table_digest
from shoal.compare.compare import compare
from shoal.compare.result import RISKS, Comparison
from shoal.core.errors import UsageError
from shoal.policy.policy import Policy

POLICY: dict[str, Any] = {
    "attributes": {
        "name": {"role": "identifier"},
        "age": {"role": "quasi"},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}],
}
KEY = "0" * 64


def people(n: int = 150, seed: int = 1) -> pa.Table:
    return tables.people(n, seed, "name age sex illness")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The people of every release that is made from now on."""
    found: list[set[str]] = []
    real = trying.make_release

    def counted(data: pa.Table, *arguments: Any, **options: Any) -> Any:
        found.append(set(data.column("name").to_pylist()))
        return real(data, *arguments, **options)

    monkeypatch.setattr(trying, "make_release", counted)
    return found


def compared(cache: Path, policy: Any = POLICY, data: pa.Table | None = None, **options: Any) -> Comparison:
    return compare(people() if data is None else data, policy, cache=cache, **{"targets": 20, **options})


def stated(found: Comparison) -> dict[str, Any]:
    content = found.as_dict()
    return {**content, "rows": [{**row, "cached": None} for row in content["rows"]]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has one row, of a comparison with the seed 7."""
    folder = tmp_path_factory.mktemp("cache") / "kept"
    compared(folder, seed=7)
    return folder


@pytest.fixture(scope="module")
def findings() -> Any:
    release = shoal.anonymize(people(), POLICY, seed=7)
    return trying.attack(release, people(), people(60, 3), attacks=RISKS, targets=20, seed=7)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, findings: Any) -> None:
    """Every release has the same findings: what attacks cost is most of a comparison, and not what is tested."""
    monkeypatch.setattr(trying, "attack", lambda *_, **__: findings)


def by_file(tree: Path | str) -> dict[str, Any]:
    """Return the policy with the values of sex in a tree of a file."""
    return {**POLICY, "attributes": {**POLICY["attributes"], "sex": {"role": "quasi", "taxonomy": {"file": str(tree)}}}}


def entries(folder: Path, kind: str = "row") -> list[Path]:
    return sorted(folder.glob(f"{kind}-*.json"))


@pytest.mark.parametrize("seed", [None, 5], ids=["chance", "seed"])
def test_a_rerun_makes_no_release_and_says_so(tmp_path: Path, made: list[set[str]], seed: int | None) -> None:
    first = compared(tmp_path / "kept", sweep="k-anonymity.k=2,4", seed=seed)
    assert len(made) == 2
    second = compared(tmp_path / "kept", sweep="k-anonymity.k=2,4", seed=seed)
    assert len(made) == 2
    assert [row.cached for row in (*first.rows, *second.rows)] == [False, False, True, True]
    assert stated(first) == stated(second)
    assert second.rows[0].seconds == first.rows[0].seconds
    assert json.dumps(stated(first)) == json.dumps(stated(second))


@pytest.mark.usefixtures("quick")
def test_another_value_costs_one_release_about_the_same_people(tmp_path: Path, made: list[set[str]]) -> None:
    compared(tmp_path, sweep="k-anonymity.k=2,4")
    found = compared(tmp_path, sweep="k-anonymity.k=2,3,4")
    assert [row.cached for row in found.rows] == [True, False, True]
    assert made[0] == made[1] == made[2]
    assert len(made) == 3


@pytest.mark.usefixtures("quick")
def test_without_a_folder_others_are_put_aside_each_time(made: list[set[str]]) -> None:
    for _ in range(2):
        compare(people(), POLICY, cache=False, targets=20)
    assert made[0] != made[1]  # 30 of 150 alike: one in 1e31


@pytest.mark.usefixtures("quick")
def test_names_weights_and_order_are_no_content(tmp_path: Path, made: list[set[str]]) -> None:
    compared(tmp_path, sweep="k-anonymity.k=2,4")
    found = compared(tmp_path, sweep={"k-anonymity.k": [4]}, methods="mondrian", weights="inference=3")
    assert found.rows[0].name == "mondrian, k=4"
    assert len(made) == 3  # a method of its own is another policy
    again = compared(tmp_path, sweep={"k-anonymity.k": [4, 2]}, weights="inference=3")
    assert [row.cached for row in again.rows] == [True, True]
    assert again.weights["inference"] == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"targets": 21},
        {"seed": 1},
        {"hold_out": 0.3},
        {"control": people(60, 3)},
        {"data": people().slice(0, 149)},
        {"data": people().set_column(3, "illness", people().column("illness").take(pa.array([*range(1, 150), 0])))},
        {"policy": {**POLICY, "missing": "drop"}},
        {"policy": {**POLICY, "attributes": dict(reversed(POLICY["attributes"].items()))}},
        {"policy": {**POLICY, "attributes": {**POLICY["attributes"], "age": {"role": "quasi", "weight": 2}}}},
    ],
    ids=["targets", "seed", "share", "control", "rows", "values", "policy", "order", "weight"],
)
@pytest.mark.usefixtures("quick")
def test_changed_content_is_made_anew(
    tmp_path: Path, kept: Path, made: list[set[str]], changed: dict[str, Any]
) -> None:
    folder = shutil.copytree(kept, tmp_path / "kept")
    assert [row.cached for row in compared(folder, **{"seed": 7, **changed}).rows] == [False]
    assert len(made) == 1
    assert [row.cached for row in compared(folder, seed=7).rows] == [True]


@pytest.mark.usefixtures("quick")
def test_what_a_policy_is_compared_beside_is_content(tmp_path: Path, made: list[set[str]]) -> None:
    """Values are compared by the first policy's trees, and only attributes that all policies publish."""
    own = {**POLICY, "privacy": [{"k-anonymity": {"k": 2}}]}
    by_tens = {"role": "quasi", "taxonomy": {"intervals": {"min": 20, "max": 69, "widths": [10]}}}
    other_trees = {**POLICY, "attributes": {**POLICY["attributes"], "age": by_tens}}
    fewer = {**POLICY, "attributes": {**POLICY["attributes"], "sex": {"role": "insensitive"}}}

    def cached(*policies: Any) -> list[bool]:
        return [row.cached for row in compare(people(), *policies, cache=tmp_path, targets=20, seed=7).rows]

    assert cached(POLICY, own) == [False, False]
    assert cached(POLICY, own) == [True, True]
    assert cached(other_trees, own) == [False, False]
    assert cached(POLICY, own, fewer) == [False, False, False]
    assert len(made) == 7


@pytest.mark.usefixtures("quick")
def test_files_that_a_policy_names_are_content(tmp_path: Path, made: list[set[str]]) -> None:
    policy = tmp_path / "policy.yaml"
    tree = tmp_path / "sex.csv"
    tree.write_text("f;*\nm;*\n", encoding="utf-8")
    policy.write_text(
        json.dumps(by_file("sex.csv")),
        encoding="utf-8",
    )
    compared(tmp_path / "kept", policy)
    assert compared(tmp_path / "kept", policy).rows[0].cached
    tree.write_text("m;*\nf;*\n", encoding="utf-8")
    assert not compared(tmp_path / "kept", policy).rows[0].cached
    elsewhere = tmp_path / "moved"
    elsewhere.mkdir()
    for file in (policy, tree):
        file.rename(elsewhere / file.name)
    assert compared(tmp_path / "kept", elsewhere / "policy.yaml").rows[0].cached  # content, not places


@pytest.mark.usefixtures("quick")
def test_a_file_that_changes_while_a_release_is_made_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "sex.csv"
    tree.write_text("f;*\nm;*\n", encoding="utf-8")
    real = trying.make_release

    orders = iter(["m;*\nf;*\n", "f;*\nm;*\n", "m;*\nf;*\n"])

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        tree.write_text(next(orders), encoding="utf-8")
        return real(*arguments, **options)

    monkeypatch.setattr(trying, "make_release", meanwhile)
    named = by_file(tree)
    compared(tmp_path / "alone", named)
    assert not entries(tmp_path / "alone")
    compare(people(), POLICY, named, cache=tmp_path / "second", targets=20)
    assert len(entries(tmp_path / "second")) == 1


@pytest.mark.usefixtures("quick")
def test_rows_after_a_file_changed_are_not_kept_for_they_are_compared_by_the_old_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "sex.csv"
    tree.write_text("f;*\nm;*\n", encoding="utf-8")
    real = trying.make_release

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        release = real(*arguments, **options)
        tree.write_text("m;*\nf;*\n", encoding="utf-8")
        return release

    monkeypatch.setattr(trying, "make_release", meanwhile)
    found = compared(tmp_path / "kept", by_file(tree), sweep=["k-anonymity.k=3,4"])
    assert [row.reason for row in found.rows] == [None, None]
    assert not entries(tmp_path / "kept")


def test_a_policy_that_names_a_pipe_has_no_key(tmp_path: Path) -> None:
    tree = tmp_path / "sex.csv"
    policy = Policy.load(by_file(tree))
    memory = Memory(Cache(tmp_path / "kept"), policy, tmp_path / "key", ["sex"], [])
    tree.write_text("f;*\nm;*\n", encoding="utf-8")
    assert memory.key(policy) is not None
    tree.unlink()
    os.mkfifo(tree)
    assert memory.key(policy) is None


@pytest.mark.usefixtures("quick")
def test_a_population_is_content_and_one_without_a_digest_is_never_kept(tmp_path: Path, made: list[set[str]]) -> None:
    import pyarrow.csv as pa_csv

    file = tmp_path / "all.csv"
    pa_csv.write_csv(people(200).select(["age", "sex"]), file)
    policy = {**POLICY, "privacy": [{"k-map": {"k": 2, "population": str(file)}}]}
    assert compared(tmp_path / "kept", policy).rows[0].reason is None
    assert compared(tmp_path / "kept", policy).rows[0].cached
    pa_csv.write_csv(people(220, 2).select(["age", "sex"]), file)
    assert not compared(tmp_path / "kept", policy).rows[0].cached
    address = {**POLICY, "privacy": [{"k-map": {"k": 2, "population": "sqlite:///nowhere.db?table=people"}}]}
    before = len(entries(tmp_path / "kept"))
    assert compared(tmp_path / "kept", address).rows[0].reason is not None
    assert len(entries(tmp_path / "kept")) == before


@pytest.mark.usefixtures("quick")
def test_other_code_makes_everything_anew(
    tmp_path: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared(tmp_path)
    monkeypatch.setattr(keys, "code_digest", lambda: "another version")
    compared(tmp_path)
    assert len(made) == 2
    assert made[0] == made[1]


def test_what_cannot_be_reached_is_kept_and_other_refusals_are_not(
    tmp_path: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for cached in (False, True):
        (row,) = compared(tmp_path, sweep="k-anonymity.k=1000").rows
        assert row.reason is not None
        assert row.cached is cached
    assert len(made) == 1

    def broken(*_: Any, **__: Any) -> Any:
        raise UsageError("the disk is full")

    monkeypatch.setattr(trying, "make_release", broken)
    assert compared(tmp_path).rows[0].reason == "the disk is full"
    assert len(entries(tmp_path)) == 1


def test_techniques_are_kept_too_though_their_key_is_new_each_time(tmp_path: Path, made: list[set[str]]) -> None:
    for _ in range(2):
        found = compared(tmp_path, techniques="original,pseudonymisation,k-anonymity,slicing,anatomy")
    assert all(row.cached for row in found.rows)
    assert len(made) == len(found.rows) == 5


@pytest.mark.usefixtures("quick")
def test_an_interrupted_run_keeps_what_it_had(
    tmp_path: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = trying.make_release

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if made:
            raise KeyboardInterrupt
        return counting(*arguments, **options)

    monkeypatch.setattr(trying, "make_release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compared(tmp_path, sweep="k-anonymity.k=2,4")
    monkeypatch.setattr(trying, "make_release", counting)
    assert [row.cached for row in compared(tmp_path, sweep="k-anonymity.k=2,4").rows] == [True, False]


def _without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda entry: {**entry, "content": {key: each for key, each in entry["content"].items() if key != name}}


def _signed(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """Change an entry and give it the digest that it then has."""

    def changed(entry: dict[str, Any]) -> Any:
        new = change(entry)
        new["digest"] = hashlib.sha256(json.dumps(new["content"], sort_keys=True).encode()).hexdigest()
        return new

    return changed


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: {**entry, "format": 99},
        lambda entry: {**entry, "key": KEY},
        lambda entry: {**entry, "digest": KEY},
        lambda entry: {**entry, "content": {**entry["content"], "records": 1}},
        lambda entry: [entry],
        _signed(_without("risks")),
        _signed(lambda entry: {**entry, "content": {**entry["content"], "records": "many"}}),
        _signed(lambda entry: {**entry, "content": {**entry["content"], "records": -5}}),
        _signed(lambda entry: {**entry, "content": {**entry["content"], "achieved": []}}),
        _signed(lambda entry: {**entry, "content": {**entry["content"], "more": 1}}),
        _signed(lambda entry: {**entry, "content": {**entry["content"], "marginals": [1]}}),
        _signed(lambda entry: {**entry, "content": "figures"}),
    ],
    ids=[
        *("format", "key", "digest", "figure", "list"),
        *("missing", "text", "negative", "achieved", "more", "marginals", "content"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_a_spoiled_entry_is_made_anew(
    tmp_path: Path, kept: Path, made: list[set[str]], change: Callable[[Any], Any]
) -> None:
    folder = shutil.copytree(kept, tmp_path / "kept")
    (file,) = entries(folder)
    file.write_text(json.dumps(change(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")
    (row,) = compared(folder, seed=7).rows
    assert (row.cached, row.records) == (False, 120)
    assert len(made) == 1
    assert compared(folder, seed=7).rows[0].cached


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'"x"' + b" " * (1 << 20)])
def test_foreign_files_are_as_if_they_were_not_there(tmp_path: Path, content: bytes) -> None:
    cache = Cache(tmp_path)
    (tmp_path / f"row-{KEY}.json").write_bytes(content)
    (tmp_path / f"drawing-{KEY}.json").write_bytes(content)
    assert cache.look_up(KEY) is None
    number = cache.drawing(KEY)
    assert number == cache.drawing(KEY)
    cache.keep(KEY, {"a": 1.5})
    assert cache.look_up(KEY) == {"a": 1.5}


def test_links_and_files_that_others_may_write_are_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "kept")
    cache.keep(KEY, {"a": 1})
    file = tmp_path / "kept" / f"row-{KEY}.json"
    file.chmod(0o666)
    assert cache.look_up(KEY) is None
    file.chmod(0o600)
    assert cache.look_up(KEY) == {"a": 1}
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    assert cache.look_up(KEY) is None
    file.unlink()
    os.mkfifo(file, 0o600)
    assert cache.look_up(KEY) is None


def test_the_folder_and_its_files_are_their_owners_alone_and_hold_no_values(tmp_path: Path) -> None:
    policy = {**POLICY, "privacy": [{"confidence-bounding": {"most": 0.9, "harmless": ["flu"]}}]}
    found = compared(tmp_path / "a" / "kept", policy, techniques=None)
    assert found.rows[0].reason is None
    folder = tmp_path / "a" / "kept"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert sorted(file.name.split("-")[0] for file in files) == ["drawing", "row"]
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        text = file.read_text(encoding="utf-8")
        assert not [word for word in ("flu", "gout", "mumps", "person", "age", str(tmp_path)) if f'"{word}' in text]
    assert compared(folder, policy).rows[0].guarantees[0]["parameters"]["harmless"] == ["flu"]


def test_a_folder_that_others_may_write_to_or_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match="others may write"):
        compared(tmp_path / "open")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for wrong in ("file", "file/below"):
        with pytest.raises(UsageError, match="cannot keep figures"):
            compared(tmp_path / wrong)


@pytest.mark.usefixtures("quick")
def test_the_users_own_folder_is_used_unless_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine" / "shoal" / "compare"
    compare(people(), POLICY, targets=20)
    assert len(entries(default_folder())) == 1
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = compare(people(), POLICY, targets=20)
    assert found.rows[0].reason is None
    assert "nothing is kept for a later comparison" in found.notes[-1]


def test_a_write_that_fails_leaves_nothing_behind_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.json, "dump", full)
    cache.keep(KEY, {"a": 1})
    assert cache.drawing(KEY) >= 0
    assert list(tmp_path.iterdir()) == []


def test_the_least_recently_used_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "MOST", {"row": 3, "drawing": 1})
    cache = Cache(tmp_path)
    names = [letter * 64 for letter in "abcde"]
    for age, name in enumerate(names):
        cache.keep(name, {"a": 1})
        cache.drawing(name)
        for kind in ("row", "drawing"):
            os.utime(tmp_path / f"{kind}-{name}.json", (1_000_000 + age, 1_000_000 + age))
    left = tmp_path / "part-left"
    left.write_text("x", encoding="utf-8")
    os.utime(left, (1, 1))
    (tmp_path / "part-new").write_text("x", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert cache.look_up(names[0]) is not None  # used just now
    cache.tidy()
    assert [name for name in names if cache.look_up(name) is not None] == [names[0], names[3], names[4]]
    assert [file.name for file in entries(tmp_path, "drawing")] == [f"drawing-{names[4]}.json"]
    assert sorted(file.name for file in tmp_path.iterdir() if file.suffix != ".json") == ["notes.txt", "part-new"]


def test_processes_at_once_agree_on_whom_to_draw(tmp_path: Path) -> None:
    go = tmp_path / "go"
    program = (
        "import runpy, sys, time, pathlib\n"
        "cache = runpy.run_path(sys.argv[3])['Cache'](pathlib.Path(sys.argv[1]))\n"
        "print('ready', flush=True)\n"
        "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.001)\n"
        "for n in range(200): cache.keep('0' * 64, {'n': n}); assert cache.look_up('0' * 64) is not None\n"
        "print([cache.drawing(f'{n:064x}') for n in range(200)])\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "kept"), str(go), caching.__file__],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    go.touch()
    said = [each.communicate(timeout=60)[0] for each in running]
    assert [each.returncode for each in running] == [0, 0]
    assert said[0] == said[1]
    assert len(set(json.loads(said[0]))) == 200
    assert not list((tmp_path / "kept").glob("part-*"))


def test_the_digest_of_a_table_is_of_its_content() -> None:
    table = people()
    pieces = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert table_digest(table) == table_digest(pieces) == table_digest(table.replace_schema_metadata({"a": "b"}))
    others = [
        table.slice(1),
        table.rename_columns(["name", "age", "sex", "disease"]),
        table.set_column(1, "age", table.column("age").cast(pa.int32())),
        table.take(pa.array([1, 0, *range(2, 150)])),
    ]
    assert len({table_digest(each) for each in (table, *others)}) == 5


def test_figures_of_something_else_are_none() -> None:
    assert Figures.read({"reason": "no"}) == Figures("no")
    for wrong in (
        {},
        {"reason": 5},
        {"reason": None, "records": 1.5},
        {"reason": None, "risks": {"x": {"attack": "x"}}},
    ):
        assert Figures.read(wrong) is None


def test_a_rerun_counts_no_tables(tmp_path: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    compared(tmp_path)

    def heavy(*_: Any, **__: Any) -> Any:
        raise AssertionError("tables were counted though nothing is measured")

    monkeypatch.setattr(trying.SourceTables, "of", heavy)
    assert compared(tmp_path).rows[0].cached
