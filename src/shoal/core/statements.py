"""Signed statements about a release: in-toto Statements v1, which follow from its files except for the time.

Types and fields follow in-toto/attestation (``spec/v1/statement.md``, ``spec/predicates/svr.md`` 0.1 and
``test-result.md`` 0.1) and of DSSE 1.0; ``version`` and ``policy`` of the verifier are extension fields.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal.core.documents import read_json
from shoal.core.errors import UsageError
from shoal.core.wording import attack_text

VERIFIED, ATTACKED = "verified.dsse.json", "attacked.dsse.json"  # in the public and in the internal folder
RECORD = "attacks.json"  # in the internal folder: the results that the second statement describes
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_TESTS = {"nothing found": 0, "clear": 1, "slight": 1, "inconclusive": 1}  # passed or warned; other verdicts fail


def encode_payload(kind: str, body: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers.

    >>> encode_payload("text/plain", "é".encode())
    b'DSSEv1 10 text/plain 2 \\xc3\\xa9'
    """
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(body), body)


def state_verified(public: Path, manifest: Mapping[str, Any], time: str | None = None) -> dict[str, Any]:
    """Return the statement that the guarantees of a release were verified, at *time* or now."""
    stated = _state(public, "svr")
    verifier = {"id": "urn:shoal:verify", "version": {"shoal": manifest["shoal_version"]}}
    scripts = [file for file in stated["subject"] if file["name"] == "verify.sql"]
    predicate = {
        "verifier": {**verifier, "policy": scripts[0]} if scripts else verifier,
        "timeCreated": time or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "properties": [name_property(one) for one in manifest["guarantees"]],
    }
    return {**stated, "predicate": predicate}


def state_attacked(public: Path, known: Sequence[str], record: bytes) -> dict[str, Any]:
    """Return the statement about recorded attacks; the result is only a pass if an attack was run and found nothing."""
    found = read_json(record)
    outcomes = {attack_text(one): re.split("[:,]", one["verdict"])[0] for one in found["attacks"]}
    tests = [[name for name, word in outcomes.items() if _TESTS.get(word, 2) == place] for place in range(3)]
    refused = [attack_text(one) for one in found["refused"]]
    notes = {"known": list(known), "notes": found["notes"], "outcomes": outcomes, "refused": refused}
    digest = {"sha256": hashlib.sha256(record).hexdigest()}
    predicate = {
        "result": "FAILED" if tests[2] else "WARNED" if tests[1] or not tests[0] else "PASSED",
        "configuration": [{"name": RECORD, "digest": digest, "annotations": notes}],
        **dict(zip(("passedTests", "warnedTests", "failedTests"), tests, strict=True)),
    }
    return {**_state(public, "test-result"), "predicate": predicate}


def name_property(guarantee: Mapping[str, Any]) -> str:
    """Return a guarantee as one line: the model, its sorted parameters as JSON, and the people it counts.

    >>> name_property({"model": "t-closeness", "parameters": {"t": 0.2, "distance": "equal"}, "counts": "unit"})
    't-closeness distance="equal" t=0.2 per unit'
    """
    texts = [f"{name}={json.dumps(value)}" for name, value in sorted(guarantee["parameters"].items())]
    return " ".join([guarantee["model"], *texts, *(["per", guarantee["counts"]] if "counts" in guarantee else [])])


def _state(public: Path, kind: str) -> dict[str, Any]:
    """Return a statement without predicate about all files of a public folder except for the envelope."""
    files = []
    for path in sorted(public.rglob("*")):
        if path.is_file() and path != public / VERIFIED:
            with path.open("rb") as file:
                digest = {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
            files.append({"name": path.relative_to(public).as_posix(), "digest": digest})
    types = {"_type": "https://in-toto.io/Statement/v1", "predicateType": f"https://in-toto.io/attestation/{kind}/v0.1"}
    return {**types, "subject": files}


def load_cryptography(name: str) -> Any:
    try:
        return importlib.import_module(f"cryptography.{name}")
    except ImportError:
        raise UsageError("signatures need the package cryptography: pip install 'shoal[pseudonyms]'") from None
