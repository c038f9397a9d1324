"""Plans, releases by them and links as a demanding user types them: odd files, wrong numbers, and no secrets told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from shoal.cli import app

SECRET = "Zaphod-4711"
AGES = range(20, 80)
ILLNESSES = ("flu", "gout", "Übelkeit 🤢", 'so-called, "cold"')
N_RECORDS = 3000


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def stated(*arguments: object) -> Any:
    """What a command that must succeed answers as JSON."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def plan(*options: object, out: object = "plan.json") -> Result:
    return run("agency", "plan", "--sensitive", "illness", "--delta", "0.01", "-o", out, *options)


def records(n: int = N_RECORDS, **changes: str) -> pa.Table:
    """Stays, of which every combination occurs as often as others; *changes* spoil the first one."""
    rows = {
        "name": [f"{SECRET}-{i}" for i in range(n)],
        "age": [str(20 + i % 60) for i in range(n)],
        "sex": ["FM"[i // 60 % 2] for i in range(n)],
        "illness": [ILLNESSES[i // 120 % 4] for i in range(n)],
    }
    for name, value in changes.items():
        rows[name][0] = value
    return pa.table(rows)


def counts() -> pa.Table:
    return records().group_by(["age", "sex", "illness"]).aggregate([([], "count_all")]).rename_columns(
        ["age", "sex", "illness", "count"]
    )  # fmt: skip


def write(table: pa.Table, path: str, **options: Any) -> str:
    pc.write_csv(table, path, pc.WriteOptions(**options))
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with counts and the records that they are of."""
    monkeypatch.chdir(tmp_path)
    write(counts(), "counts.csv")
    write(records(), "stays.csv")
    return tmp_path


def test_past_records_are_counted_as_their_counts_say(place: Path) -> None:
    whole = ("--l", 3)
    assert plan("--counts", "counts.csv", *whole, out="a.json").exit_code == 0
    assert plan("--data", "stays.csv", "--attributes", "age,sex", *whole, out="b.json").exit_code == 0
    pq.write_table(records(), "stays.parquet", row_group_size=700)
    assert plan("--data", "stays.parquet", "--attributes", "age, sex", *whole, out="c.json").exit_code == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes() == Path("c.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give either --counts, or --data"),
        (["--counts", "counts.csv", "--data", "stays.csv"], "give either --counts, or --data"),
        (["--data", "stays.csv"], "--data needs --attributes"),
        (["--data", "stays.csv", "--attributes", "age,age"], "'age' is named twice"),
        (["--data", "stays.csv", "--attributes", "age,illness"], "'illness' is named twice"),
        (["--data", "stays.csv", "--attributes", "age,sx"], "did you mean 'sex'?"),
        (["--data", "counts.csv", "--attributes", "age,count"], "'count' says how likely"),
        (["--data", "none.csv", "--attributes", "age"], "there is no file none.csv"),
    ],
)
def test_past_records_are_named_clearly(place: Path, options: list[str], message: str) -> None:
    done = plan("--l", 3, *options)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr
    assert not Path("plan.json").exists()


def test_past_records_without_a_value_are_counted_by_column(place: Path) -> None:
    rows = records().to_pydict()
    rows["age"][:3], rows["sex"][5] = [""] * 3, ""
    write(pa.table(rows), "gaps.csv")
    done = plan("--l", 3, "--data", "gaps.csv", "--attributes", "age,sex")
    assert done.exit_code == 2
    assert "column 'age' in 3, column 'sex' in 1" in done.stderr
    assert SECRET not in done.stderr


FORMS = ("semicolons", "tabs", "parquet", "numbers", "whole floats", "dictionaries", "gzip")


@pytest.mark.parametrize("form", FORMS)
def test_the_same_records_in_any_form_are_the_same_release(place: Path, form: str) -> None:
    """A plan compares texts, so it does not matter how a file holds them."""
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    table, path = records(), "other.parquet"
    if form in ("semicolons", "tabs"):
        path = write(table, "other.csv", delimiter=";" if form == "semicolons" else "\t")
    elif form == "gzip":
        path = "other.csv.gz"
        with pa.CompressedOutputStream(path, "gzip") as file:
            pc.write_csv(table, file)
    else:
        kinds = {"numbers": pa.int16(), "whole floats": pa.float64(), "dictionaries": None, "parquet": pa.string()}
        ages = table["age"].dictionary_encode() if form == "dictionaries" else table["age"].cast(kinds[form])
        pq.write_table(table.set_column(1, "age", ages), path)
    plain = stated("agency", "apply", "plan.json", "stays.csv", "-o", "plain", "--seed", 1, "--format", "csv")
    other = stated("agency", "apply", "plan.json", path, "-o", "other", "--seed", 1, "--format", "csv")
    assert other["rows"] == plain["rows"] == N_RECORDS
    rows = [sorted((Path(out) / "public" / "data.csv").read_text("utf-8").splitlines()) for out in ("plain", "other")]
    assert rows[0] == rows[1]
    assert stated("verify", "other", "--source", path)["verified"] is True


SPOILED = {
    "a value of a number": {"age": f"{SECRET} years"},
    "a value of a category": {"sex": SECRET},
    "a sensitive value": {"illness": SECRET},
    "a number that is written differently": {"age": "020"},
    "a missing value": {"age": ""},
    "a missing sensitive value": {"illness": ""},
}


@pytest.mark.parametrize("what", SPOILED)
def test_records_outside_the_domain_are_told_by_column_and_never_by_value(place: Path, what: str) -> None:
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    write(records(**SPOILED[what]), "spoiled.csv")
    (column,) = SPOILED[what]
    for extra in ([], ["--json"]):
        done = run("agency", "apply", "plan.json", "spoiled.csv", "-o", "out", *extra)
        assert done.exit_code == 2
        assert f"column '{column}': 1 record" in done.output
        assert SECRET not in done.output
        assert "020" not in done.output
    assert not Path("out").exists()


@pytest.mark.parametrize("n", [1, 60, 1999])
def test_too_few_records_publish_nothing_and_say_how_many_are_missing(place: Path, n: int) -> None:
    needed = stated("agency", "plan", "--counts", "counts.csv", "--sensitive", "illness", "--l", 3, "--delta", "0.01",
                  "-o", "plan.json")["records"]  # fmt: skip
    assert needed > n
    write(records(n), "few.csv")
    done = run("agency", "apply", "plan.json", "few.csv", "-o", "out")
    assert done.exit_code == 3
    assert f"the plan asks for {needed:,}: {needed - n:,} are missing" in done.stderr
    assert SECRET not in done.output
    assert [path.name for path in Path().iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("content", ["", "name,age,sex,illness\n"], ids=["empty", "only a header"])
def test_empty_files_are_bad_input_everywhere(place: Path, content: str) -> None:
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    Path("empty.csv").write_text(content)
    for words in (
        ("agency", "apply", "plan.json", "empty.csv", "-o", "out"),
        ("agency", "apply", "empty.csv", "stays.csv", "-o", "out"),
        ("agency", "plan", "--counts", "empty.csv", "--sensitive", "illness", "--l", 3, "--delta", "0.1", "-o", "out"),
        ("agency", "plan", "--data", "empty.csv", "--attributes", "age", "--sensitive", "illness", "--l", 3,
         "--delta", "0.1", "-o", "out"),
        ("link", "empty.csv", "empty.csv"),
        ("ledger", "show", "empty.csv"),
    ):  # fmt: skip
        done = run(*words)
        assert done.exit_code == 2, (words, done.output)
        assert done.stderr.startswith("shoal: "), words
        assert "unexpected" not in done.stderr, words
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--l", 5], 3, "l = 5 is more than the 4 values of 'illness'"),
        (["--l", 0], 2, "l must be at least 1"),
        (["--l", 2.5], 2, "must be a whole number"),
        (["--l", 3, "--p", 0.3], 3, "p = 0.3 is above p_l = 0.2"),
        (["--l", 3, "--p", 0], 2, "p must be above 0"),
        (["--l", 3, "--p", 0.01, "--eta", 0.01], 3, "p = 0.01 is not above eta = 0.01"),
        (["--l", 3, "--eta", 1], 2, "eta must be at least 0 and below 1"),
        (["--l", 3, "--delta", 0], 2, "delta must be above 0 and below 1"),
        (["--l", 3, "--delta", 1], 2, "delta must be above 0 and below 1"),
        (["--l", 3, "--delta", 7], 2, "delta must be above 0 and below 1, got 7"),
        (["--l", 3, "--delta", "1e400"], 2, "--delta must be a number such as 0.01"),
        (["--l", 3, "--delta", "1e-400"], 2, "--delta must be a number such as 0.01"),
        (["--l", 3, "--delta", "1e99999999"], 2, "--delta must be a number such as 0.01"),
        (["--l", 3, "--delta", "nan"], 2, "--delta must be a number such as 0.01"),
        (["--l", 3, "--p", "1e-30"], 3, "more records than can be counted"),
        (["--l", 3, "--p", "1e-16"], 3, "more than any table has"),
        (["--l", 3, "--delta", "1/2"], 2, "--delta must be a number such as 0.01"),
        (["--l", 3, "--samples", 5], 3, "5 samples are too few"),
        (["--l", 3, "--samples", 5000, "--p", 0.01], 2, "not both"),
        (["--l", 3, "--attributes", "age,age"], 2, "must name each quasi column"),
        (["--l", 3, "--order", "random"], 2, "--order must be one of"),
        (["--l", 3, "--order", "taxonomy"], 2, "needs at least one taxonomy"),
        (["--promise", "entropy", "--l", 4], 3, "ask for a smaller l"),
        (["--promise", "entropy", "--l", 2, "--eta", 0.1], 2, "eta above 0 cannot be carried through"),
        (["--promise", "k-anonymity", "--k", 3001], 3, "3,000 samples are too few for k = 3001"),
    ],
)
def test_promises_that_cannot_be_planned_are_refused(place: Path, options: list[Any], code: int, message: str) -> None:
    done = plan("--counts", "counts.csv", *options)
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert not Path("plan.json").exists()
    answer = json.loads(plan("--counts", "counts.csv", *options, "--json").stdout)
    assert answer["exit_code"] == code
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,illness,probability\n1,flu,0.5\n1,gout,0.4\n", "sums to 0.9; probabilities must sum to 1"),
        ("age,illness,probability\n1,flu,0.7\n1,gout,0.5\n", "sums to 1.2; probabilities must sum to 1"),
        ("age,illness,count\n1,flu,5\n1,gout,-5\n", "1 of 2 values are negative"),
        (f"age,illness,count\n1,flu,5\n1,gout,{SECRET}\n", "1 of 2 values are no whole numbers"),
        (f"age,illness,count\n{SECRET},flu,5\n{SECRET},flu,5\n", "'age' and 'illness' is: 1; add them up"),
        ("age,age,illness,count\n1,1,flu,5\n", "columns with the same name: 'age'"),
        ("class,illness,count\n1,flu,5\n", "a column 'class'"),
    ],
)
def test_distributions_that_are_none_are_refused(place: Path, text: str, message: str) -> None:
    Path("wrong.csv").write_text(text)
    done = plan("--counts", "wrong.csv", "--l", 1)
    assert done.exit_code == 2
    assert message in done.stderr
    assert SECRET not in done.output
    assert not Path("plan.json").exists()


def test_one_point_one_class_one_value_one_record(place: Path) -> None:
    """The smallest plan there is promises one value and is kept by one record."""
    Path("one.csv").write_text("Größe,illness,count\n1 m,grippé,1\n", encoding="utf-8")
    said = stated("agency", "plan", "--counts", "one.csv", "--sensitive", "illness", "--l", 1, "--delta", "0.5",
                "-o", "plan.json")  # fmt: skip
    assert (said["classes"], said["records"], said["p"]) == (1, 1, 1.0)
    Path("person.csv").write_text("Größe,illness\n1 m,grippé\n", encoding="utf-8")
    release = stated("agency", "apply", "plan.json", "person.csv", "-o", "out")
    assert (release["rows"], release["guarantees"][0]["achieved"]) == (1, 1.0)
    assert Path("out/public/data.csv").read_text("utf-8").splitlines() == ["class,Größe,illness", "1,1 m,grippé"]
    assert stated("verify", "out", "--source", "person.csv")["verified"] is True
    assert stated("link", "out", "out/public", "--target", "Größe=1 m")["remaining"] == {"grippé": 1}


ALTERED = {
    "records": lambda document: document | {"records": 1},
    "delta": lambda document: document | {"delta": 0.9},
    "promise": lambda document: document | {"promise": {"model": "l-delta-diversity", "l": 1}},
    "values": lambda document: document | {"values": [[1, 2, 3], *document["values"][1:]]},
    "runs": lambda document: document | {"runs": document["runs"][::-1]},
    "eta": lambda document: document | {"eta": 0.5},
}


@pytest.mark.parametrize("key", ALTERED)
def test_a_plan_that_was_altered_publishes_nothing(place: Path, key: str) -> None:
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    document = json.loads(Path("plan.json").read_text("utf-8"))
    altered = ALTERED[key](document)
    assert altered != document
    Path("altered.json").write_text(json.dumps(altered), encoding="utf-8")
    done = run("agency", "apply", "altered.json", "stays.csv", "-o", "out")
    assert done.exit_code == 2
    assert "altered" in done.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize("format_", [1, 3, "2", None])
def test_a_plan_of_another_format_is_refused_as_such(place: Path, format_: object) -> None:
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    document = json.loads(Path("plan.json").read_text("utf-8"))
    Path("other.json").write_text(json.dumps(document | {"format": format_}), encoding="utf-8")
    done = run("agency", "apply", "other.json", "stays.csv", "-o", "out")
    assert (done.exit_code, "another format than 2" in done.stderr) == (2, True), done.stderr
    assert not Path("out").exists()


def test_nobody_below_the_floor_is_said_so(place: Path) -> None:
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    for out in ("a", "b"):
        assert run("agency", "apply", "plan.json", "stays.csv", "-o", out).exit_code == 0
    done = run("link", "a", "b", "--floor", 3)
    assert f"At least 3 values remain for each of {N_RECORDS:,} people." in done.stdout
    assert "At most 0" not in done.stdout


def test_worst_cases_that_look_alike_are_shown_once(place: Path) -> None:
    """Beside a sliced release several cases may be one class of the other release; each such class is told once."""
    roles = "attributes:\n  name: {role: identifier}\n  age: {role: quasi}\n  sex: {role: quasi}\n"
    rest = "  illness: {role: sensitive}\nprivacy: "
    wide, plain = "[{k-anonymity: {k: 400}}]", "[{distinct-l-diversity: {l: 3}}]"
    for name, method, privacy in (("boxes", "mondrian", wide), ("parts", "anatomy", plain)):
        Path(f"{name}.yaml").write_text(f"{roles}{rest}{privacy}\nmethod: {{{method}: {{}}}}\n")
        assert run("anonymize", "stays.csv", "-p", f"{name}.yaml", "-o", name, "--seed", 3).exit_code == 0
    cases = stated("link", "boxes", "parts", "--floor", 5)["worst"]
    shown = run("link", "boxes", "parts", "--floor", 5).stdout.partition("Worst cases")[2].split("\n")
    boxes = [line for line in shown if line.startswith("   boxes: ")]
    assert len(cases) == 10
    assert 1 <= len(boxes) == len(set(boxes)) < len(cases)
    assert len(set(boxes)) == len({json.dumps([case["l"], case["classes"]]) for case in cases})


def test_adult_by_a_plan_keeps_l_and_by_itself_does_not(shared_data: Path, tmp_path: Path) -> None:
    """Two owners with half of Adult each, planned from all of it: five occupations remain by plan, fewer without."""
    import numpy as np

    from shoal.datasets.uci import adult

    columns = ["age", "sex", "education", "occupation"]
    rows = adult(shared_data, columns=columns)
    rows = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    rows = rows.take(np.random.default_rng(5).permutation(rows.num_rows))
    everybody, halves = tmp_path / "all.csv", [tmp_path / "a.csv", tmp_path / "b.csv"]
    write(rows, str(everybody))
    for path, start in zip(halves, (0, rows.num_rows // 2), strict=True):
        write(rows.slice(start, rows.num_rows // 2), str(path))
    agreed = tmp_path / "plan.json"
    said = stated("agency", "plan", "--data", everybody, "--attributes", "age,sex,education", "--sensitive",
                "occupation", "--l", 5, "--delta", "0.01", "--samples", rows.num_rows // 2, "-o", agreed)  # fmt: skip
    assert said["n_tight"] < said["n"] == said["records"] <= rows.num_rows // 2
    assert said["classes"] > 100
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "attributes:\n  age: {role: quasi}\n  sex: {role: quasi}\n  education: {role: quasi}\n"
        "  occupation: {role: sensitive}\nprivacy: [{distinct-l-diversity: {l: 5}}]\n"
    )
    for half in halves:
        stated("agency", "apply", agreed, half, "-o", half.with_suffix(".agreed"))
        stated("anonymize", half, "-p", policy, "-o", half.with_suffix(".alone"))
    by_plan = stated("link", *(half.with_suffix(".agreed") for half in halves), "--population", everybody, "--floor", 5)
    alone = stated("link", *(half.with_suffix(".alone") for half in halves), "--population", everybody, "--floor", 5)
    assert (by_plan["promised"], by_plan["people_below"]) == (5, 0)
    assert by_plan["l"] >= 5 > alone["l"]
    assert alone["people_below"] > 0


def test_the_service_says_where_it_serves_as_one_object(tmp_path: Path) -> None:
    """``serve --json`` answers at once, though its output is a file and it goes on running."""
    command = [str(Path(sys.executable).with_name("shoal")), "agency", "serve", "--json", "--port", "0"]
    database = ["--database", f"sqlite:///{tmp_path}/agency.db"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    said = tmp_path / "said.json"
    with said.open("w") as out, subprocess.Popen([*command, *database], stdout=out, env=environment) as served:
        try:
            until = time.monotonic() + 60
            while not said.stat().st_size and served.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            answer = json.loads(said.read_text())
            assert answer["url"] == f"http://127.0.0.1:{answer['port']}"
        finally:
            served.send_signal(signal.SIGTERM)
        assert served.wait(timeout=30) == 0
    refused = run("agency", "serve", "--json", "--database", "oracle://here")
    assert refused.exit_code == 2
    assert json.loads(refused.stdout)["exit_code"] == 2
