"""The verifier's own reading of a plan: what does not fit together is refused, by it and by the agency's reading."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shoal.agency.distribution import read_distribution
from shoal.agency.planning import make_plan, plan_document
from shoal.core.errors import InputError
from shoal.manifest import AgreedFile, ManifestError
from shoal.release.forms.agreed import K_ANONYMITY, Promise, digest_plan, parse_plan
from shoal.verify.agreed import read_plan

Document = dict[str, Any]


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    rows = [(a, s, i, 30 - 5 * n) for a in range(6) for s in "FM" for n, i in enumerate(("flu", "gout", "cold"))]
    table = pa.table(dict(zip(("age", "sex", "illness", "count"), zip(*rows, strict=True), strict=True)))
    known = read_distribution(table, "illness")
    values = make_plan(known, promise=2, delta=Fraction("0.05"), samples=120)
    records = make_plan(known, promise=Promise(K_ANONYMITY, 3), delta=Fraction("0.05"), samples=120)
    return {"values": plan_document(values), "records": plan_document(records)}


@pytest.fixture
def document(documents) -> Document:
    return copy.deepcopy(documents["values"])


def written(folder: Path, content: bytes, document: Document) -> AgreedFile:
    (folder / "plan.json").write_bytes(content)
    own = document.get("digest")
    return AgreedFile.model_construct(
        file="plan.json",
        sha256=hashlib.sha256(content).hexdigest(),
        digest=own if isinstance(own, str) else "0" * 64,
        classes=document["classes"] if type(document.get("classes")) is int else 1,
    )


def test_both_readings_agree(documents, tmp_path):
    for document in documents.values():
        content = json.dumps(document, indent=1).encode()
        found = read_plan(tmp_path / "plan.json", written(tmp_path, content, document))
        agreed = parse_plan(content, "plan.json")
        assert tuple(found.columns) == (*agreed.quasi, found.sensitive) == ("age", "sex", "illness")
        assert [found.columns[name] for name in agreed.quasi] == [tuple(values) for values in agreed.quasi_values]
        assert found.class_of.tolist() == [number + 1 for number in agreed.number.tolist()]
        assert found.points.tolist() == [column.tolist() for column in agreed.points]
        assert found.shown.tolist() == agreed.values.tolist()
        written_plan, promise = found.written, agreed.promise
        assert (found.model, found.least, written_plan.records) == (promise.model, promise.least, agreed.records)
        assert written_plan.delta == agreed.delta
        assert written_plan.classes == agreed.classes > 1


def put(*path: Any) -> Callable[[Document], None]:
    *way, last, value = path

    def change(document: Document) -> None:
        place: Any = document
        for step in way:
            place = place[step]
        place[last] = value

    return change


def drop(key: str) -> Callable[[Document], None]:
    return lambda document: document.pop(key)


def swap_runs(document: Document) -> None:
    document["runs"][0][0] = document["classes"] + 1


def point_twice(document: Document) -> None:
    for column in document["points"]:
        column[1] = column[0]


def class_without_points(document: Document) -> None:
    document["runs"][1][0] = document["runs"][0][0]


def short_runs(document: Document) -> None:
    document["runs"][0][1] += 1


CONTRADICTIONS: dict[str, Callable[[Document], None]] = {
    "another kind": put("kind", "shoal-plan"),
    "format 1": put("format", 1),
    "format true": put("format", True),
    "no order": drop("order"),
    "a further key": put("note", "x"),
    "no quasi attribute": put("quasi", []),
    "quasi is no list": put("quasi", {"age": ["1"]}),
    "an attribute twice": put("quasi", 1, "name", "age"),
    "the sensitive attribute is quasi": put("sensitive", "name", "age"),
    "a nameless value": put("sensitive", "values", 0, None),
    "a value twice": put("sensitive", "values", 1, "cold"),
    "half a character in a value": put("sensitive", "values", 0, "\ud800"),
    "half a character in a quasi value": put("quasi", 0, "values", 0, "\udc00"),
    "half a character in a name": put("sensitive", "name", "illness\ud800"),
    "a value that is a number": put("quasi", 0, "values", 0, 0),
    "points of one attribute": lambda document: document["points"].pop(),
    "a point beyond the values": put("points", 1, 0, 2),
    "a negative point": put("points", 1, 0, -1),
    "a point that is no number": put("points", 1, 0, "0"),
    "half a point": put("points", 1, 0, 0.5),
    "a huge point": put("points", 1, 0, 10**30),
    "a point too many": lambda document: document["points"][0].append(0),
    "a point twice": point_twice,
    "a class beyond the last": swap_runs,
    "a class without points": class_without_points,
    "class 0": put("runs", 0, 0, 0),
    "a run of nothing": put("runs", 0, 1, 0),
    "runs that are too long": short_runs,
    "runs of three numbers": lambda document: document["runs"][0].append(1),
    "no runs": put("runs", []),
    "no classes": put("classes", 0),
    "classes as text": put("classes", "2"),
    "an unknown promise": put("promise", {"model": "t-closeness", "t": 0.1}),
    "a promise without number": put("promise", {"model": "l-delta-diversity"}),
    "a promise of another number": put("promise", {"model": "l-delta-diversity", "k": 2}),
    "half an l": put("promise", "l", 2.5),
    "l = 0": put("promise", "l", 0),
    "l true": put("promise", "l", True),
    "a smaller l than there are values": put("promise", "l", 1),
    "delta = 0": put("delta", 0),
    "delta = 1": put("delta", 1.0),
    "delta as text": put("delta", "0.05"),
    "eta above p": put("eta", 0.9),
    "p above 1": put("p", 1.5),
    "records that are neither number": put("records", 1),
    "records as text": put("records", "100"),
    "n_tight above n": lambda document: document.update(n_tight=document["n"] + 1),
    "n = 0": put("n", 0),
    "m below the classes": put("m", 1.0),
    "values of too few classes": lambda document: document["values"].pop(),
    "too few values of a class": lambda document: document["values"][0].pop(),
    "a value of a class twice": lambda document: put("values", 0, [0, 0])(document),
    "values out of order": lambda document: document["values"][0].reverse(),
    "a value beyond the last": put("values", 0, [0, 3]),
    "no values": put("values", []),
    "another promise with values": put("promise", {"model": "k-delta-anonymity", "k": 2}),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_plan_that_contradicts_itself_is_refused_though_its_digest_is_right(document, tmp_path, name):
    CONTRADICTIONS[name](document)
    document["digest"] = digest_plan(document)
    content = json.dumps(document).encode()
    with pytest.raises(ManifestError):
        read_plan(tmp_path / "plan.json", written(tmp_path, content, document))
    with pytest.raises(InputError):
        parse_plan(content, "plan.json")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{", b"\xff\xfe{}", b'{"digest": NaN}', b"[" * 100_000, '{"kind": "é"}'.encode("latin-1")],
)
def test_what_is_no_plan_is_refused(tmp_path, content):
    with pytest.raises(ManifestError):
        read_plan(tmp_path / "plan.json", written(tmp_path, content, {}))
    with pytest.raises(InputError):
        parse_plan(content, "plan.json")


def test_a_key_that_comes_twice_is_refused(document, tmp_path):
    content = json.dumps(document).encode()
    twice = content[:-1] + b', "records": 1}'
    assert len(json.loads(twice)) == len(document)
    with pytest.raises(ManifestError, match="same key twice"):
        read_plan(tmp_path / "plan.json", written(tmp_path, twice, document))
    with pytest.raises(InputError, match="not JSON"):
        parse_plan(twice, "plan.json")


def test_a_plan_with_an_attribute_called_class_has_no_release(document, tmp_path):
    document["quasi"][0]["name"] = "class"
    document["digest"] = digest_plan(document)
    with pytest.raises(ManifestError, match="'class'"):
        read_plan(tmp_path / "plan.json", written(tmp_path, json.dumps(document).encode(), document))


def test_the_plan_must_be_the_declared_one(document, tmp_path):
    content = json.dumps(document).encode()
    declared = written(tmp_path, content, document)
    path = tmp_path / "plan.json"
    for wrong in (
        declared.model_copy(update={"sha256": "0" * 64}),
        declared.model_copy(update={"digest": "0" * 64}),
        declared.model_copy(update={"classes": declared.classes + 1}),
    ):
        with pytest.raises(ManifestError):
            read_plan(path, wrong)
    document["order"] = "another"
    with pytest.raises(ManifestError, match="altered"):
        read_plan(path, written(tmp_path, json.dumps(document).encode(), document))
    path.unlink()
    with pytest.raises(ManifestError, match="cannot be read"):
        read_plan(path, declared)
