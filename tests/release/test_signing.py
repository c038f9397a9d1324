"""The manifest's digest in internal/, and signatures in public/."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError, UsageError
from shoal.release.signing import new_signing_key
from shoal.verify.verifier import verify

RUNNER = CliRunner(env={"COLUMNS": "200"})
PEOPLE = pa.table({"age": [21, 22, 23, 41, 42, 43], "sex": ["f", "m", "f", "m", "f", "m"]})
POLICY = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10, 50]}}},
        "sex": {"role": "quasi"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}],
}


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, bytes]:
    public = new_signing_key(tmp_path / "sign.key")
    shoal.anonymize(PEOPLE, POLICY, out=tmp_path / "out", sign=tmp_path / "sign.key")
    return tmp_path / "out", public.read_bytes()


def outcome(folder: Path, key: bytes | None = None) -> dict[str, tuple[bool, bool]]:
    return {check.name: (check.ok, check.done) for check in verify(folder, public_key=key).checks}


def test_a_signed_release_is_checked_with_the_key(signed: tuple[Path, bytes]) -> None:
    folder, key = signed
    assert outcome(folder, key)["signature"] == (True, True)
    assert outcome(folder / "public", key)["signature"] == (True, True)
    assert outcome(folder)["signature"] == (True, False)
    assert outcome(folder)["recorded"] == (True, True)


def test_a_changed_manifest_is_noticed_by_digest_and_signature(signed: tuple[Path, bytes]) -> None:
    folder, key = signed
    path = folder / "public" / "manifest.json"
    path.write_bytes(path.read_bytes() + b"\n")
    found = outcome(folder, key)
    assert found["recorded"] == found["signature"] == (False, True)
    assert not verify(folder).verified
    assert verify(folder / "public").verified is False


def test_other_and_missing_signatures_are_failures(signed: tuple[Path, bytes], tmp_path: Path) -> None:
    folder, key = signed
    other = new_signing_key(tmp_path / "other.key").read_bytes()
    assert outcome(folder, other)["signature"] == (False, True)
    signature = folder / "public" / "manifest.sig"
    for wrong in ("", "no digits", signature.read_text()[:-3], "00" * 64):
        signature.write_text(wrong)
        assert outcome(folder, key)["signature"] == (False, True)
    signature.unlink()
    assert outcome(folder, key)["signature"] == (False, True)
    assert "signature" not in outcome(folder)


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


def test_the_commands(tmp_path: Path) -> None:
    pa.csv.write_csv(PEOPLE, tmp_path / "people.csv")
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    key, folder = tmp_path / "sign.key", tmp_path / "out"
    made = RUNNER.invoke(app, ["key", "new", str(key), "--signing", "--json"])
    public = json.loads(made.stdout)["public_key"]
    policy = str(tmp_path / "policy.json")
    run = ["anonymize", str(tmp_path / "people.csv"), "-p", policy, "-o", str(folder), "--sign", str(key)]
    assert RUNNER.invoke(app, run).exit_code == 0
    assert RUNNER.invoke(app, ["verify", str(folder), "--public-key", public]).exit_code == 0
    assert "not done" in RUNNER.invoke(app, ["verify", str(folder)]).stdout
    (folder / "public" / "manifest.sig").unlink()
    assert RUNNER.invoke(app, ["verify", str(folder), "--public-key", public]).exit_code == 4
    assert RUNNER.invoke(app, ["verify", str(folder), "--public-key", str(key)]).exit_code == 2
