"""The manifest's digest in internal/, and signed statements: in-toto Statements in DSSE envelopes."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError, UsageError, VerificationError
from shoal.core.statements import encode_payload, name_property
from shoal.release.signing import SigningKey, new_signing_key, read_signing_key
from shoal.verify.verifier import verify

RUNNER = CliRunner(env={"COLUMNS": "200"})
PEOPLE = pa.table({"age": [21, 22, 23, 41, 42, 43], "sex": ["f", "m", "f", "m", "f", "m"]})
PATIENTS = pa.table({"age": [20 + n // 2 for n in range(80)], "ill": ["flu", "gout"] * 40})
POLICY = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10, 50]}}},
        "sex": {"role": "quasi"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}],
}
CARE = {
    "attributes": {"age": {"role": "quasi"}, "ill": {"role": "sensitive"}},
    "privacy": [{"k-anonymity": {"k": 2}}, {"t-closeness": {"t": 0.4}}],
}
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, bytes]:
    public = new_signing_key(tmp_path / "sign.key")
    shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "out", sign=tmp_path / "sign.key")
    return tmp_path / "out", public.read_bytes()


@pytest.fixture
def attacked(tmp_path: Path) -> tuple[Path, bytes]:
    public = new_signing_key(tmp_path / "sign.key")
    shoal.anonymize(PATIENTS, CARE, out=tmp_path / "out", format="csv", sign=tmp_path / "sign.key")
    pa.csv.write_csv(PATIENTS, tmp_path / "patients.csv")
    done = attack(tmp_path, "--record", "--sign", str(tmp_path / "sign.key"))
    assert done.exit_code == 0, done.output
    return tmp_path / "out", public.read_bytes()


def attack(place: Path, *more: str) -> Any:
    names = ["--attack", "homogeneity", "--attack", "inference", "--attack", "definetti"]
    options = ["--source", str(place / "patients.csv"), *names, "--seed", "1"]
    return RUNNER.invoke(app, ["attack", str(place / "out"), *options, *more])


def outcome(folder: Path, key: bytes | None = None) -> dict[str, tuple[bool, bool]]:
    return {check.name: (check.ok, check.done) for check in verify(folder, public_key=key).checks}


def failing(folder: Path, key: bytes) -> set[str]:
    return {check.name for check in verify(folder, public_key=key).checks if not check.ok}


def read_payload(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b64decode(json.loads(path.read_text())["payload"]))
    return found


def sign_again(folder: Path, change: Change, name: str = "public/verified.dsse.json") -> None:
    """Change a statement and sign it with the data holder's own key."""
    statement = read_payload(folder / name)
    change(statement)
    (folder / name).write_text(read_signing_key(folder.parent / "sign.key").sign(statement))


def test_the_encoding_that_is_signed() -> None:
    # the vector in the protocol of DSSE 1.0, and lengths in bytes rather than characters
    vector = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert encode_payload("http://example.com/HelloWorld", b"hello world") == vector
    assert encode_payload("t\u00e4", "\u20ac 1".encode()) == b"DSSEv1 3 t\xc3\xa4 5 \xe2\x82\xac 1"
    assert encode_payload("", b"") == b"DSSEv1 0  0 "


def test_a_signed_release_is_checked_with_the_key(signed: tuple[Path, bytes]) -> None:
    folder, key = signed
    for place in (folder, folder / "public"):
        found = outcome(place, key)
        assert {found[name] for name in ("signature", "statement", "subjects", "properties")} == {(True, True)}
        assert verify(place, public_key=key).verified
    assert outcome(folder)["signature"] == (True, False)
    assert outcome(folder)["recorded"] == (True, True)
    assert "statement" not in outcome(folder)


def test_the_code_of_the_guide_checks_an_envelope(
    signed: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pem = signed
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "DSSEv1" in block)
    (folder.parent / "holder.key.pub").write_bytes(pem)
    monkeypatch.chdir(folder / "public")
    exec(compile(code, "verify.md", "exec"), {})
    assert capsys.readouterr().out == "['k-anonymity k=3']\n"
    (folder / "public" / "report.html").write_text("")
    with pytest.raises(AssertionError):
        exec(compile(code, "verify.md", "exec"), {})


def test_properties_name_parameters_and_people() -> None:
    assert name_property({"model": "k-anonymity", "parameters": {"k": 5}}) == "k-anonymity k=5"
    about = {"l": 2, "attribute": 'a b="c'}
    text = 'distinct-l-diversity attribute="a b=\\"c" l=2 per household'
    assert name_property({"model": "distinct-l-diversity", "parameters": about, "counts": "household"}) == text


def test_changed_files_are_not_the_signed_ones(signed: tuple[Path, bytes]) -> None:
    folder, key = signed
    public = folder / "public"
    data = public / "data.parquet"
    before = data.read_bytes()
    data.write_bytes(before[:-1] + b"x")
    assert "subjects" in failing(folder, key)
    data.write_bytes(before)
    (public / "more.txt").write_text("more")
    assert failing(folder, key) == {"subjects", "folder"}
    texts = {check.name: check.detail for check in verify(folder, public_key=key).checks}
    assert texts["properties"] == "verified.dsse.json: it agrees with the release"
    changed = "public files were changed, added or removed after it was signed"
    assert texts["subjects"] == f"verified.dsse.json: {changed}"
    (public / "more.txt").unlink()
    (public / "report.html").rename(folder / "report.html")
    assert failing(folder, key) == {"subjects", "folder"}
    (folder / "report.html").rename(public / "report.html")
    assert failing(folder, key) == set()


def test_a_changed_manifest_is_noticed_by_digest_and_signature(signed: tuple[Path, bytes]) -> None:
    folder, key = signed
    path = folder / "public" / "manifest.json"
    before = path.read_bytes()
    path.write_bytes(before + b"\n")
    assert failing(folder, key) == {"recorded", "subjects"}
    assert not verify(folder).verified
    assert verify(folder / "public").verified is False
    path.write_bytes(before.replace(b'{"k": 3}', b'{"k": 2}'))
    assert {"recorded", "subjects", "properties"} <= failing(folder, key)
    path.write_bytes(b"[]")
    assert {"manifest", "recorded", "statement"} <= failing(folder, key)


def test_envelopes_that_the_key_did_not_sign(signed: tuple[Path, bytes], tmp_path: Path) -> None:
    folder, key = signed
    path = folder / "public" / "verified.dsse.json"
    other = new_signing_key(tmp_path / "other.key").read_bytes()
    assert failing(folder, other) == {"signature"}
    written, envelope = path.read_text(), json.loads(path.read_text())
    (signature,) = envelope["signatures"]
    fooled = b64encode(b64decode(envelope["payload"]).replace(b"k=3", b"k=9")).decode()
    forged = json.loads(read_signing_key(tmp_path / "other.key").sign(read_payload(path)))["signatures"][0]
    assert fooled != envelope["payload"]
    wrong: list[object] = [
        envelope | {"payload": fooled},
        envelope | {"payload": "?"},
        envelope | {"payload": envelope["payload"] + "\n"},
        envelope | {"payload": None},
        envelope | {"payloadType": "application/json"},
        envelope | {"more": 1},
        envelope | {"signatures": []},
        envelope | {"signatures": None},
        envelope | {"signatures": [signature, signature]},
        envelope | {"signatures": [signature, forged]},
        envelope | {"signatures": [forged]},
        envelope | {"signatures": [forged | {"keyid": signature["keyid"]}]},
        envelope | {"signatures": [{"sig": signature["sig"]}]},
        envelope | {"signatures": [signature | {"sig": signature["sig"][:-4]}]},
        envelope | {"signatures": [signature | {"sig": "?" + signature["sig"]}]},
        envelope | {"signatures": [signature | {"cert": ""}]},
        [envelope],
        None,
    ]
    texts = [json.dumps(one) for one in wrong]
    texts += ["", "{", written.replace('"payload":', '"payload": "", "payload":', 1), written[:-3]]
    for text in texts:
        path.write_text(text)
        assert failing(folder, key) == {"signature"}, text
        assert outcome(folder)["signature"] == (True, False)
    path.unlink()
    assert failing(folder, key) == {"signature"}
    assert "signature" not in outcome(folder)
    path.mkdir()
    assert "signature" in failing(folder, key)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda one: one.update(_type="https://in-toto.io/Statement/v0.1"), "statement"),
        (lambda one: one.update(predicateType="https://in-toto.io/attestation/test-result/v0.1"), "statement"),
        (lambda one: one.update(more=1), "statement"),
        (lambda one: one.pop("predicate"), "statement"),
        (lambda one: one.update(predicate=[]), "statement"),
        (lambda one: one["subject"].pop(), "subjects"),
        (lambda one: one["subject"].append(one["subject"][0]), "subjects"),
        (lambda one: one["subject"][0]["digest"].update(sha256="0" * 64), "subjects"),
        (lambda one: one["subject"][0].update(more=1), "subjects"),
        (lambda one: one.update(subject={}), "subjects"),
        (lambda one: one["predicate"]["properties"].clear(), "properties"),
        (lambda one: one["predicate"]["properties"].append("k-anonymity k=9"), "properties"),
        (lambda one: one["predicate"].update(more=1), "properties"),
        (lambda one: one["predicate"].pop("timeCreated"), "properties"),
        (lambda one: one["predicate"]["verifier"].update(id="urn:other"), "properties"),
        (lambda one: one["predicate"]["verifier"].update(policy=one["subject"][0]), "properties"),
    ],
)
def test_statements_that_say_something_else(signed: tuple[Path, bytes], change: Change, check: str) -> None:
    folder, key = signed
    sign_again(folder, change)
    assert failing(folder, key) == {check}


def test_a_payload_with_the_same_key_twice(signed: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, key = signed
    sign_again(folder, lambda one: one)
    assert failing(folder, key) == set()
    dumps = json.dumps
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", lambda one, **more: dumps(one, **more).replace('"_type"', '"_type": "", "_type"'))
        sign_again(folder, lambda one: one)
    assert failing(folder, key) == {"statement"}


def test_the_envelope_of_another_release_is_refused(signed: tuple[Path, bytes], tmp_path: Path) -> None:
    folder, key = signed
    shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "other", format="csv", sign=tmp_path / "sign.key")
    (tmp_path / "other/public/verified.dsse.json").replace(folder / "public/verified.dsse.json")
    assert failing(folder, key) == {"subjects", "properties"}


def test_a_run_that_fails_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_signing_key(tmp_path / "sign.key")
    calls: list[str] = []

    def refuse(_: object) -> None:
        calls.append("verified")
        raise VerificationError("refused")

    def sign(_: SigningKey, __: object) -> str:
        calls.append("signed")
        raise UsageError("cannot sign")

    monkeypatch.setattr(SigningKey, "sign", sign)
    with pytest.raises(UsageError, match="cannot sign"):
        shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "out", sign=tmp_path / "sign.key")
    monkeypatch.setattr(import_module("shoal.anonymize.run"), "refuse_unverified", refuse)
    with pytest.raises(VerificationError, match="refused"):
        shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "out", sign=tmp_path / "sign.key")
    assert calls == ["signed", "verified"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sign.key", "sign.key.pub"]


def test_recorded_attacks_are_signed(attacked: tuple[Path, bytes]) -> None:
    folder, key = attacked
    found = outcome(folder, key)
    assert {name for name in found if name.startswith("attack ")} == {
        *("attack signature", "attack statement", "attack subjects", "attack results")
    }
    assert verify(folder, public_key=key).verified
    assert outcome(folder)["attack signature"] == (True, False)
    statement = read_payload(folder / "internal" / "attacked.dsse.json")
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["subject"] == read_payload(folder / "public" / "verified.dsse.json")["subject"]
    predicate = statement["predicate"]
    record = (folder / "internal" / "attacks.json").read_bytes()
    (configuration,) = predicate["configuration"]
    assert configuration["digest"] == {"sha256": hashlib.sha256(record).hexdigest()}
    assumed = configuration["annotations"]
    assert assumed["known"] == ["age"]
    assert assumed["refused"] == ["definetti"]
    assert "there is no control group" in assumed["notes"][0]
    names = [*predicate["passedTests"], *predicate["warnedTests"], *predicate["failedTests"]]
    assert sorted(names) == sorted(assumed["outcomes"]) == ["homogeneity: ill", "inference: ill"]


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda one: one.update(predicateType="https://in-toto.io/attestation/svr/v0.1"), "attack statement"),
        (lambda one: one["subject"].pop(), "attack subjects"),
        (lambda one: one["predicate"]["passedTests"].append("membership"), "attack results"),
        (lambda one: one["predicate"].update(url="x"), "attack results"),
        (lambda one: one["predicate"]["configuration"][0]["annotations"]["known"].clear(), "attack results"),
    ],
)
def test_attack_statements_that_say_something_else(attacked: tuple[Path, bytes], change: Change, check: str) -> None:
    folder, key = attacked
    sign_again(folder, change, "internal/attacked.dsse.json")
    assert failing(folder, key) == {check}


def test_attack_statements_about_other_results(attacked: tuple[Path, bytes]) -> None:
    folder, key = attacked
    record, envelope = (folder / "internal" / name for name in ("attacks.json", "attacked.dsse.json"))
    written = record.read_bytes()
    record.write_bytes(written + b" ")
    assert failing(folder, key) == {"attack results"}
    record.unlink()
    assert failing(folder, key) == {"attack statement"}
    record.write_bytes(written)
    assert attack(folder.parent, "--record").exit_code == 0
    assert not envelope.exists()
    assert verify(folder, public_key=key).verified
    assert attack(folder.parent, "--sign", str(folder.parent / "sign.key")).exit_code == 0
    assert outcome(folder, key)["attack results"] == (True, True)
    assert attack(folder.parent, "--sign", str(folder.parent / "no.key")).exit_code == 2
    other = new_signing_key(folder.parent / "other.key").read_bytes()
    assert failing(folder, other) == {"signature", "attack signature"}


def test_evidence_without_a_readable_digest(signed: tuple[Path, bytes]) -> None:
    folder, _ = signed
    path = folder / "internal" / "evidence.json"
    evidence = json.loads(path.read_text())
    path.write_text(json.dumps(evidence | {"manifest": {}}))
    assert outcome(folder)["recorded"] == (False, True)
    path.write_text("{")
    assert outcome(folder)["recorded"] == (False, True)
    path.write_text(json.dumps({key: value for key, value in evidence.items() if key != "manifest"}))
    assert outcome(folder)["recorded"] == (True, False)


def test_keys(tmp_path: Path) -> None:
    key = tmp_path / "sign.key"
    new_signing_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="exists"):
        new_signing_key(key)
    with pytest.raises(UsageError, match="written"):
        shoal.anonymize(PEOPLE, POLICY, sign=key)
    bad = tmp_path / "bad.key"
    bad.touch(0o600)
    with pytest.raises(InputError, match="is not a signing key"):
        shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "out", sign=bad)
    key.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "out", sign=key)
    assert not (tmp_path / "out").exists()
