"""``shoal compare`` as it is typed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from shoal.cli import app
from shoal.cli.compare import show
from shoal.compare import compare as trying
from shoal.compare.compare import compare
from shoal.compare.result import RISKS, Comparison
from shoal.compare.writing import Wanted, reading

POLICY = {
    "attributes": {
        "name": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 20, "max": 69, "widths": [10]}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}],
}


def people(seed: int, n: int = 250) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"Zaphod-{seed}-{i}" for i in range(n)],
            "age": rng.integers(20, 70, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(["flu", "asthma", "gout", "[b]rash[/b]"], n),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compare")
    pa_csv.write_csv(people(1), place / "people.csv")
    pa_csv.write_csv(people(2), place / "control.csv")
    (place / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    sliced = {**POLICY, "method": {"anatomy": {}}, "privacy": [{"simple-l-diversity": {"l": 2}}]}
    (place / "anatomy.yaml").write_text(yaml.safe_dump(sliced), encoding="utf-8")
    return place


def run(folder: Path, *arguments: str, policies: tuple[str, ...] = ("policy.yaml",)) -> tuple[int, str]:
    given = [part for name in policies for part in ("-p", str(folder / name))]
    typed = ["compare", str(folder / "people.csv"), *given, "--targets", "40", *arguments]
    result = CliRunner().invoke(app, typed)
    return result.exit_code, result.output


def test_json_has_everything(folder: Path) -> None:
    code, said = run(folder, "--techniques", "original,hashing,k-anonymity", "--seed", "1", "--json")
    assert code == 0, said
    stated = json.loads(said)
    assert stated["records"] == 200
    assert stated["control"] == {"records": 50, "held_out": 0.2}
    assert [row["name"] for row in stated["rows"]] == ["original", "hashing", "k-anonymity"]
    for row in stated["rows"]:
        assert set(row) == {
            *("name", "title", "parameters", "opinion", "guarantees", "claims", "risks", "marginals", "records"),
            *("decision", "bar"),
            *("seconds", "label", "rank", "score", "risk", "risk_low", "risk_high", "kept"),
            *("dominated_by", "clearly_dominated"),
        }
        assert set(row["risks"]) == set(RISKS)
        assert set(row["risks"]["inference"]["risk"]) == {"value", "low", "high"}
    assert stated["rows"][1]["opinion"]["inference"] == "may not"
    assert stated["rows"][0]["opinion"]["technique"] is None
    assert "Zaphod" not in said


def test_policies_have_a_row_each_and_a_control_table_is_used(folder: Path) -> None:
    control = str(folder / "control.csv")
    code, said = run(folder, "--control", control, "--json", policies=("policy.yaml", "anatomy.yaml"))
    assert code == 0, said
    stated = json.loads(said)
    assert stated["control"] == {"records": 250, "held_out": None}
    assert [row["name"] for row in stated["rows"]] == ["policy.yaml", "anatomy.yaml"]
    assert [row["guarantees"][0]["model"] for row in stated["rows"]] == ["k-anonymity", "simple-l-diversity"]


def test_files_are_written_beside_the_answer(folder: Path, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"found.{kind}" for kind in ("csv", "svg", "md")}
    code, said = run(
        folder,
        *("--techniques", "original,differential-privacy"),
        *("--csv", str(files["csv"]), "--frontier", str(files["svg"]), "--markdown", str(files["md"])),
    )
    assert code == 0, said
    assert "differential-privacy failed: the values of illness, sex are not declared" in said
    with files["csv"].open(encoding="utf-8") as lines:
        assert [line["name"] for line in csv.DictReader(lines)] == ["original", "differential-privacy"]
    assert "<svg" in files["svg"].read_text(encoding="utf-8")
    assert "](found.svg)" in files["md"].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        (("--techniques", "nothing"), "unknown technique"),
        (("--control", "x.csv", "--hold-out", "0.1"), "choose one"),
        (("--frontier", "x.png"), "must end in .svg"),
        (("--csv", "nowhere/x.csv"), "no folder"),
        (("--targets", "5"), "at least 7"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_what_is_not_understood_ends_with_2(folder: Path, arguments: tuple[str, ...], stated: str) -> None:
    code, said = run(folder, *arguments, "--json")
    assert code == 2
    assert stated in json.loads(said)["error"]


@pytest.fixture(scope="module")
def found() -> Comparison:
    techniques = "original,noise,l-diversity,anatomy"
    return compare(people(1), POLICY, techniques=techniques, seed=1, targets=40)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal(found: Comparison, width: int) -> None:
    said = io.StringIO()
    show(found, Console(width=width, highlight=False, file=said))
    table = said.getvalue().split("Risks:")[0]
    lines = [line.rstrip() for line in table.splitlines()]
    assert max(map(len, lines)) <= width
    assert "…" not in table
    for text in ("original", "noise", "l-diversity", "anatomy", "not rated", "may not", "promise: none"):
        assert text in table
    assert "marginals" in lines[0]


def test_sweeps_are_ranked(folder: Path) -> None:
    asked = ("--sweep", "k-anonymity.k=2,20", "--methods", "mondrian,hilbert", "--weights", "risk=2")
    code, said = run(folder, *asked, "--json")
    assert code == 0, said
    stated = json.loads(said)
    rows = stated["rows"]
    assert stated["weights"]["risk"] == 2
    assert [row["name"] for row in rows] == ["mondrian, k=2", "mondrian, k=20", "hilbert, k=2", "hilbert, k=20"]
    assert min(row["rank"] for row in rows) == (1 if any(row["bar"] is None for row in rows) else 2)
    for row in rows:
        assert row["policy"] == "policy.yaml"
        assert row["settings"]["k-anonymity.k"] == row["guarantees"][0]["parameters"]["k"]
        assert row["changes"]["privacy"] == [{"k-anonymity": {"k": row["settings"]["k-anonymity.k"]}}]
        assert {"score", "risk", "risk_low", "risk_high", "kept", "clearly_dominated"} <= set(row)
        assert set(row["dominated_by"]) <= {other["label"] for other in rows} - {row["label"]}


def test_the_command_is_the_function(folder: Path) -> None:
    code, said = run(folder, "--sweep", "k-anonymity.k=2,20", "--seed", "3", "--weights", "marginals=2", "--json")
    assert code == 0, said
    found = compare(
        folder / "people.csv",
        folder / "policy.yaml",
        sweep={"k-anonymity.k": [2, 20]},
        weights={"marginals": 2},
        seed=3,
        targets=40,
    )
    expected, stated = json.loads(json.dumps(found.as_dict())), json.loads(said)
    for row in (*expected["rows"], *stated["rows"]):
        row["seconds"] = None
    assert stated == expected


@pytest.fixture(scope="module")
def swept() -> Comparison:
    return compare(
        people(1),
        {**POLICY, "privacy": [{"k-anonymity": {"k": 3}}, {"distinct-l-diversity": {"l": 2}}]},
        sweep={"k-anonymity.k": [2, 20, 1000]},
        methods="mondrian,slicing,synthetic{epsilon: 1}",
        seed=1,
        targets=40,
    )


def test_the_page_is_one_file_with_ranking_plot_table_and_reasons(swept: Comparison, tmp_path: Path) -> None:
    Wanted(html=tmp_path / "found.html", frontier=tmp_path / "found.svg").write(swept, "Comparison on <people>")
    text = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert "<h1>Comparison on &lt;people&gt;</h1>" in text
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in text
    for row in swept.rows:
        assert row.name in text
    assert text.count("<svg") == 1
    assert "What could not be made" in text
    assert "synthetic promises nothing about classes" in text
    for line in reading(swept):
        assert line in unescape(text)
    ElementTree.parse(tmp_path / "found.svg")


@pytest.mark.parametrize("width", [80, 120])
def test_ranks_are_told_in_the_terminal(swept: Comparison, width: int) -> None:
    said = io.StringIO()
    show(swept, Console(width=width, highlight=False, file=said))
    table = said.getvalue().split("failed: ")[0]
    assert max(map(len, table.splitlines()[:-1])) <= width
    assert "not rated" not in table
    words = " ".join(said.getvalue().split())
    assert "rank 1, score" in words
    assert "on the frontier" in words
    assert "slicing, k=1000 (slicing; k-anonymity k = 1000; distinct-l-diversity l = 2) failed" in words
    assert "by the weights risk 1, marginals 1." in words


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        (("--sweep", "k-anonymity.kk=2"), "did you mean 'k-anonymity.k'"),
        (("--sweep", "k-anonymity.k=0"), "must be at least 1"),
        (("--methods", "mondrain"), "did you mean 'mondrian'"),
        (("--weights", "risks=2"), "did you mean 'risk'"),
        (("--techniques", "all", "--methods", "mondrian"), "parameters of their own"),
        (("--frontier", "x.png"), "must end in .svg"),
        (("--html", "x.txt"), "must end in .html"),
    ],
    ids=["parameter", "value", "method", "weight", "techniques", "frontier", "html"],
)
def test_what_cannot_be_swept_ends_with_2(folder: Path, arguments: tuple[str, ...], stated: str) -> None:
    code, said = run(folder, *arguments, "--json")
    assert code == 2
    assert stated in json.loads(said)["error"]


def test_an_interrupt_ends_with_130(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trying.Run, "start", interrupted)
    code, said = run(folder, "--sweep", "k-anonymity.k=2,5", "--json")
    assert code == 130
    assert "interrupted" in json.loads(said)["error"]


def test_progress_tells_of_all_releases_and_of_each_that_is_made() -> None:
    seen: list[list[Any]] = []

    class Noted:
        @contextmanager
        def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Any]:
            entry: list[Any] = [title, total, unit, 0]
            seen.append(entry)

            class Counted:
                def advance(self, amount: int) -> None:
                    entry[3] += amount

            yield Counted()

    compare(people(1), POLICY, sweep="k-anonymity.k=2,5", targets=40, progress=Noted())
    assert seen == [
        ["comparing", 2, "releases", 2],
        ["mondrian, k=2", 1, "release", 1],
        ["mondrian, k=5", 1, "release", 1],
    ]
