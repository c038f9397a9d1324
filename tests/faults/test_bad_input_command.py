"""Bad input to the command: a clear message, exit code 2 or 3, nothing published, no record's value.

Each case goes through the command line's entry in this process, which saves its start; those marked ``installed``
run the installed command, so that nothing between the two is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli import app

COMMAND = Path(sys.executable).with_name("shoal")
SECRET = "Zaphod-4711"  # in the identifier and in the note of every row
HEADER = "patient,age,sex,disease,note"
ROWS = [(SECRET, str(20 + i % 40), "FM"[i % 2], ("flu", "cold", "gout")[i % 7 % 3], f"{SECRET}!") for i in range(60)]

POLICY = """\
attributes:
  patient: {role: identifier}
  age: {role: quasi, taxonomy: {intervals: {min: 0, max: 120, widths: [5, 10]}}}
  sex: {role: quasi}
  disease: {role: sensitive}
  note: {role: insensitive}
privacy:
  - k-anonymity: {k: 3}
"""


def text(rows=ROWS, header=HEADER) -> str:
    return "\n".join([header, *(",".join(row) for row in rows)]) + "\n"


def changed(column: int, values: list[str]) -> str:
    """Return the table with other values in the first rows of one column."""
    rows = [list(row) for row in ROWS]
    for row, value in zip(rows, values, strict=False):
        row[column] = value
    return text(rows)


def run_installed(arguments, folder):
    """Return the exit code, what was answered and what was said besides."""
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def run_here(capfd, monkeypatch):
    """Run the command line in this process; anything but an orderly exit fails the test."""

    def run(arguments, folder):
        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit) as stopped:
            app(arguments)
        return stopped.value.code, *capfd.readouterr()

    return run


@pytest.fixture
def refused(tmp_path, run_here):
    """Anonymize a table that cannot be; return what was said, after the checks that hold for every refusal."""

    def run(data=None, policy=POLICY, *, code=2, name="people.csv", files=None, switches=(), installed=False):
        if data is not None:
            (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
        (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
        for other, content in (files or {}).items():
            (tmp_path / other).write_text(content, encoding="utf-8")
        before = set(tmp_path.rglob("*"))
        arguments = ["anonymize", name, "-p", "policy.yaml", "-o", "out", *switches]
        ended, answered, said = (run_installed if installed else run_here)(arguments, tmp_path)
        assert "Traceback" not in said
        assert SECRET not in answered + said
        assert ended == code, answered + said
        assert set(tmp_path.rglob("*")) == before, "nothing is published, nothing is left behind"
        if "--json" in switches:
            assert said == ""
            return json.loads(answered)
        assert answered == ""
        assert said.startswith("shoal: ")
        return said.removeprefix("shoal: ").rstrip("\n")

    return run


def test_the_table_is_fine_as_it_is(tmp_path):
    """Without this, the refusals below would prove little."""
    (tmp_path / "people.csv").write_text(text(), encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    code, _, said = run_installed(["anonymize", "people.csv", "-p", "policy.yaml", "-o", "new/out"], tmp_path)
    assert (code, said) == (0, "")
    assert (tmp_path / "new" / "out" / "public" / "data.csv").is_file()


def test_missing_file(refused):
    assert refused(installed=True) == "there is no file people.csv"


def test_column_that_the_data_lack(refused):
    assert refused(text(header="patient,agee,sex,disease,note")) == (
        "column 'age' is not in people.csv; did you mean 'agee'?"
    )


def test_undeclared_columns_are_listed(refused):
    policy = POLICY.replace("  sex: {role: quasi}\n", "").replace("  note: {role: insensitive}\n", "")
    said = refused(text(), policy)
    assert "columns that the policy does not declare: sex, note;" in said
    assert "identifier if it names people, drop to leave it out" in said


def test_one_value_outside_the_taxonomy(refused):
    said = refused(changed(1, ["130"] * 7), installed=True)
    assert "column 'age': 1 value in 7 records outside the taxonomy: '130';" in said


def test_k_larger_than_the_table(refused):
    assert "k = 61 but the table has only 60 records" in refused(
        text(), POLICY.replace("k: 3", "k: 61"), code=3, installed=True
    )


@pytest.mark.parametrize(
    "model",
    [
        "distinct-l-diversity: {l: 4}",
        "simple-l-diversity: {l: 4}",
        "entropy-l-diversity: {l: 4}",
        "recursive-cl-diversity: {c: 1, l: 4}",
        "tau-l-diversity: {tau: 0.5, l: 4}",
    ],
)
def test_l_larger_than_the_number_of_values(refused, model):
    said = refused(text(), POLICY + f"  - {model}\n", code=3)
    assert said.startswith(model.partition(":")[0] + " on 'disease': l = 4")


def test_t_below_what_is_reachable(refused):
    said = refused(text(), POLICY + "  - t-closeness: {t: 0.0001}\n", code=3, installed=True)
    assert said.startswith("t-closeness on 'disease' leaves no cut")
    reachable = float(said.partition("reaches ")[2].partition(",")[0])
    assert 0.0001 < reachable <= 1


CENSUS = "\n".join(["age,sex", *(f"{20 + i % 40},{'FM'[i % 2]}" for i in range(300))]) + "\n"
WITH_CENSUS = POLICY.replace("k-anonymity: {k: 3}", "k-map: {k: 3, population: census.csv}")


@pytest.mark.parametrize(
    ("census", "fault"),
    [
        (None, "there is no file census.csv"),
        (CENSUS.replace("sex", "sx"), "column 'sex' is not in census.csv; did you mean 'sx'?"),
        (CENSUS + f"{SECRET},F\n", "the population census.csv has values of 'age' outside its taxonomy"),
    ],
    ids=["missing", "without a column", "outside the taxonomy"],
)
def test_population_that_does_not_fit(refused, census, fault):
    files = {} if census is None else {"census.csv": census}
    assert refused(text(), WITH_CENSUS, files=files) == fault


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_output_exists(refused, tmp_path, kind):
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
    elif kind == "file":
        out.write_text("mine", encoding="utf-8")
    else:
        out.symlink_to(tmp_path / "nowhere")
    assert refused(text()) == "out exists already; choose another folder or remove it first"


def test_refusals_are_objects_with_json(refused):
    answer = refused(text() + f"{SECRET},30,F\n", switches=["--json"], installed=True)
    assert set(answer) == {"error", "exit_code"}
    assert answer["exit_code"] == 2
    assert "line 62" in answer["error"]


@pytest.mark.parametrize("size", ["200 MiB", "0.9 GiB", "2 GiB"])
def test_an_address_space_that_is_too_small_is_told(tmp_path, size):
    """Libraries would abort the process, or wait for ever."""
    number, unit = size.split()
    n_bytes = int(float(number) * {"MiB": 2**20, "GiB": 2**30}[unit])
    script = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2); "
    script += "os.execv(sys.argv[2], sys.argv[2:])"
    (tmp_path / "people.csv").write_text("age,illness\n" + "20,flu\n20,gout\n" * 4)
    (tmp_path / "policy.yaml").write_text(
        "attributes: {age: {role: quasi}, illness: {role: sensitive}}\nprivacy:\n  - k-anonymity: {k: 2}\n"
    )
    words = ["anonymize", "people.csv", "-p", "policy.yaml", "-o", "out"]
    arguments = [sys.executable, "-c", script, str(n_bytes), str(COMMAND), *words]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("shoal: the address space of this process is limited to ")
    assert not (tmp_path / "out").exists()
