"""verify.sql: run by DuckDB alone, it answers as the verifier in Python does."""

from __future__ import annotations

import hashlib
import json
import math
import random
import unicodedata
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql import run_script

import shoal
from shoal.core.dictionaries import fold_text
from shoal.verify.counting import PLAIN
from shoal.verify.engine import CannotCheckError, quote_name, quote_text
from shoal.verify.manifest import read_manifest
from shoal.verify.script import FOLDED, SCRIPT, write_script
from shoal.verify.verifier import verify

ILLNESSES = ("flu", "Flu ", "cold", "gout", "asthma", "rickets", "")
TREE = {"any": {"short": {"flu": {}, "cold": {}}, "long": {"gout": {}, "asthma": {}, "bone": {"rickets": {}}}}}
MODELS = [
    ("k-anonymity", {"k": 3}),
    ("profitability", {"gain": 3.5, "cost": 1.1}),
    ("average-risk", {"risk": 0.21}),
    ("sample-uniqueness", {"fraction": 0.01}),
    ("distinct-l-diversity", {"l": 3}),
    ("distinct-l-diversity", {"l": 3, "harmless": ["flu"]}),
    ("simple-l-diversity", {"l": 2.5}),
    ("simple-l-diversity", {"l": 2, "harmless": ["FLU", "cold"]}),
    ("entropy-l-diversity", {"l": 2}),
    ("entropy-l-diversity", {"l": 3}),
    ("entropy-l-diversity", {"l": 2, "harmless": ["flu"]}),
    ("recursive-cl-diversity", {"c": 1.5, "l": 2}),
    ("recursive-cl-diversity", {"c": 2, "l": 3}),
    ("recursive-cl-diversity", {"c": 0.7, "l": 1}),
    ("recursive-cl-diversity", {"c": 2, "l": 2, "harmless": ["flu", "cold"]}),
    ("tau-l-diversity", {"tau": 0.5, "l": 3}),
    ("tau-l-diversity", {"tau": 0.4, "l": 3, "psi": [0.4, 0.9, 1]}),
    ("tau-l-diversity", {"tau": 0.6, "l": 3, "harmless": ["flu"]}),
    ("t-closeness", {"t": 0.3}),
    ("t-closeness", {"t": 0.2, "distance": "ordered"}),
    ("t-closeness", {"t": 0.25, "distance": "hierarchical"}),
    ("alpha-k-anonymity", {"alpha": 0.5, "k": 2}),
    ("alpha-k-anonymity", {"alpha": 0.3, "k": 2, "harmless": ["flu"]}),
    ("beta-likeness", {"beta": 1.5}),
    ("beta-likeness", {"beta": 3, "enhanced": True}),
    ("delta-disclosure", {"delta": 1.2}),
    ("delta-disclosure", {"delta": 1.2, "harmless": ["asthma", "rickets", "gout"]}),
    ("confidence-bounding", {"most": 0.5}),
    ("confidence-bounding", {"most": 0.4, "harmless": ["flu"]}),
    ("simple-l-diversity", {"l": 2, "attribute": ["illness", "score"]}),
    ("t-closeness", {"t": 0.4, "attribute": "score", "distance": "ordered"}),
    ("entropy-l-diversity", {"l": 2, "attribute": "score"}),
]


def write_release(folder: Path, rows: list[tuple[str, ...]], guarantees: list[dict], **attributes: dict) -> Path:
    """Write a release by hand: a data file, a manifest, and the script for it."""
    public = folder / "public"
    public.mkdir(parents=True, exist_ok=True)
    lines = [",".join(attributes), *(",".join(row) for row in rows)]
    (public / "data.csv").write_text("\n".join(lines) + "\n")
    manifest = {
        "format": 1,
        "shoal_version": "0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": guarantees,
        "parts": [list(attributes)],
        "rows": len(rows),
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": attributes,
        "data": {
            "file": "data.csv",
            "format": "csv",
            "sha256": hashlib.sha256((public / "data.csv").read_bytes()).hexdigest(),
        },
    }
    (public / "manifest.json").write_text(json.dumps(manifest))
    (public / SCRIPT).write_text(write_script(read_manifest(manifest, with_file=True)))
    return public


def random_release(folder: Path, seed: int) -> Path:
    """Write a release of random values with all models, the figures that it reaches as they are."""
    chance = random.Random(seed)
    classes = [(chance.choice("fm"), chance.choice(("east", "west"))) for _ in range(chance.randint(1, 4))]
    rows = []
    for sex, town in classes:
        common = chance.choices(ILLNESSES, k=4)
        rows += [(sex, town, chance.choice(common), str(chance.randint(8, 11))) for _ in range(chance.randint(1, 12))]
    flat = [{"labels": {one: {"values": [one]} for one in {row[place] for row in rows}}} for place in (0, 1)]
    attributes = {
        "sex": {"role": "quasi", "kind": "category", **flat[0]},
        "town": {"role": "quasi", "kind": "category", **flat[1]},
        "illness": {
            "role": "sensitive",
            "kind": "category",
            "order": ["cold", "flu", "gout", "rickets", "asthma"],
            "taxonomy": TREE,
        },
        "score": {"role": "sensitive", "kind": "number"},
    }
    guarantees = [
        {
            "model": model,
            "parameters": {"attribute": "illness", **own} if _about_values(model) else own,
            "achieved": 0.0,
        }
        for model, own in MODELS
    ]
    public = write_release(folder, rows, guarantees, **attributes)
    reached = [one.achieved for one in verify(public).guarantees]
    for one, found in zip(guarantees, reached, strict=True):
        one["achieved"] = None if found is None or math.isinf(found) else found
    return write_release(folder, rows, guarantees, **attributes)


def _about_values(model: str) -> bool:
    return model not in ("k-anonymity", "profitability", "average-risk", "sample-uniqueness")


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(8, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_script_answers_as_the_verifier_for_every_model(tmp_path, seed):
    public = random_release(tmp_path, seed)
    expected = verify(public).guarantees
    found = [line for line in run_script(public) if line.promise not in ("rows", "columns", "labels")]
    for guarantee, line in zip(expected, found, strict=True):
        said = f"{guarantee.model} {dict(guarantee.parameters)}: {guarantee.detail}, {guarantee.achieved}, {line}"
        assert line.holds == guarantee.ok, said
        assert guarantee.achieved == pytest.approx(float(line.achieved), rel=1e-9, abs=1e-9), said


FLAT = {"role": "quasi", "kind": "category"}
SECRET = {"role": "sensitive", "kind": "category"}


def two_classes(folder: Path, *, illnesses: str = "ababab", **guarantee: object) -> Path:
    """Write a release of two classes of three records."""
    rows = [(place, illness) for place, illness in zip(("east",) * 3 + ("west",) * 3, illnesses, strict=True)]
    labels = {name: {"values": [name]} for name in ("east", "west")}
    promised = [{"model": "k-anonymity", "parameters": {"k": 3}, "achieved": 3.0, **guarantee}]
    return write_release(folder, rows, promised, town={**FLAT, "labels": labels}, illness=SECRET)


def held(public: Path) -> dict[str, bool | None]:
    return {line.promise: line.holds for line in run_script(public)}


def test_changed_row_fails(tmp_path):
    public = two_classes(tmp_path)
    assert set(held(public).values()) == {True}
    data = public / "data.csv"
    data.write_text(data.read_text().replace("west,b", "east,b", 1))
    assert held(public)["k-anonymity"] is False


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [("town,", "city,", "columns"), ("west", "north", "labels"), ("east,a\n", "", "rows"), ("west", "east", "labels")],
)
def test_changed_form_fails(tmp_path, old, new, check):
    public = two_classes(tmp_path)
    data = public / "data.csv"
    data.write_text(data.read_text().replace(old, new))
    assert held(public)[check] is False


def test_claim_that_is_not_reached_fails(tmp_path):
    assert held(two_classes(tmp_path, achieved=4.0))["k-anonymity"] is False
    assert held(two_classes(tmp_path, achieved=None))["k-anonymity"] is False


@pytest.mark.parametrize(
    ("counts", "in_sql", "holds"),
    [("aabbccdd", True, True), ("aaaabcde", None, True), ("aaaabbcd", False, False), ("aaaaaaaabbccddee", None, True)],
)
def test_entropy_tie_is_left_to_exact_arithmetic(tmp_path, counts, in_sql, holds):
    rows = [("east", value) for value in counts]
    labels = {"east": {"values": ["east"]}}
    promised = {
        "model": "entropy-l-diversity",
        "parameters": {"l": 4},
        "achieved": 4.0 if holds else 3.3635856610148585,
    }
    public = write_release(tmp_path, rows, [promised], town={**FLAT, "labels": labels}, illness=SECRET)
    assert held(public)["entropy-l-diversity"] is in_sql
    assert verify(public).guarantees[0].ok is holds


def test_letters_that_sql_cannot_compare_decide_nothing(tmp_path):
    promised = {"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 2.0}
    strasse = two_classes(tmp_path, illnesses="ßaßaßa", **promised)
    assert held(strasse)["distinct-l-diversity"] is None
    assert held(two_classes(tmp_path, illnesses="ÉaÉaÉa", **promised))["distinct-l-diversity"] is True
    assert held(two_classes(tmp_path, illnesses="ÉéÉéÉé", **promised))["distinct-l-diversity"] is False


def test_plain_letters_fold_as_in_python():
    """Every letter that the script calls plain after folding has the same normal form in Python."""
    letters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    with duckdb.connect() as engine:
        for statement in duckdb.extract_statements(FOLDED):
            engine.execute(statement)
        engine.register("letters", pa.table({"letter": letters}))
        plain = f"SELECT letter, folded(letter) AS f FROM letters WHERE regexp_full_match(f, '[{PLAIN}]*')"
        found = engine.execute(plain).fetchall()
    assert len(found) > 30_000
    wrong = [letter for letter, folded in found if fold_text(letter) != folded]
    assert not wrong, f"U+{ord(wrong[0]):04X} and {len(wrong) - 1} more"
    assert not [letter for letter, folded in found if any(map(unicodedata.combining, folded))]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_quoting_gives_the_text_back(text):
    with duckdb.connect() as engine:
        found = engine.execute(f"SELECT {quote_text(text)} AS {quote_name(text)}")
        assert found.fetchall() == [(text,)]
        assert found.description[0][0] == text


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_sql_cannot_hold_is_refused(text):
    with pytest.raises(CannotCheckError):
        quote_text(text)


HOSTILE = ['"; DROP TABLE x; --', "it's", "a,b", "a/b~c", "$.x", "*/ SELECT 1; /*", "x" * 10_000]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_labels_stay_data(tmp_path, name):
    field = '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ',"') else name
    rows = [(field, "a"), (field, "b"), (field, "c")]
    labels = {name: {"values": [name]}}
    promised = {"model": "k-anonymity", "parameters": {"k": 3}, "achieved": 3.0}
    public = write_release(tmp_path, rows, [promised], **{name: {**FLAT, "labels": labels}, "illness": SECRET})
    head, rest = (public / "data.csv").read_text().split("\n", 1)
    (public / "data.csv").write_text(f"{field},illness\n{rest}")
    assert set(held(public).values()) == {True}, head[:80]


def test_script_that_differs_fails_and_is_not_run(tmp_path, monkeypatch):
    public = two_classes(tmp_path)
    manifest = json.loads((public / "manifest.json").read_text()) | {"shoal_version": shoal.__version__}
    (public / "manifest.json").write_text(json.dumps(manifest))
    script = write_script(read_manifest(manifest, with_file=True))
    (public / SCRIPT).write_text(script)
    assert {check.name: check.ok for check in verify(public).checks}["script"]
    (public / SCRIPT).write_text(script + "COPY (SELECT 1) TO 'made.csv';\n")
    found = {check.name: check for check in verify(public).checks}["script"]
    assert not found.ok
    assert "do not run it" in found.detail
    assert not (public / "made.csv").exists()


def test_script_of_another_version_is_not_compared(tmp_path):
    public = two_classes(tmp_path)
    found = {check.name: check for check in verify(public).checks}["script"]
    assert found.ok
    assert not found.done
    (public / SCRIPT).unlink()
    assert not {check.name: check for check in verify(public).checks}["script"].done
