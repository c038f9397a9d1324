"""Signed statements: an envelope is opened with the data holder's public key, and its statement is built again.

In-toto asks readers to ignore fields that they do not know. Here they are refused, because shoal writes none of them.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.core import statements
from shoal.core.errors import InputError
from shoal.manifest import ManifestError, parse_json
from shoal.verify.result import Check

_PARTS = {  # check -> keys of a statement, and the sentence if they differ from the statement built from the files
    "statement": (("_type", "predicateType"), "its type or predicate type is not the expected one"),
    "subjects": (("subject",), "public files were changed, added or removed after it was signed"),
    "properties": (("predicate",), "its properties are not the guarantees of this manifest"),
    "results": (("predicate",), "its results are not those recorded in internal/attacks.json"),
}


def check_envelopes(public: Path, content: bytes, pem: bytes | None) -> list[Check]:
    """Check the signed statements; without a key they are not checked, with one the first of them is required."""
    paths = {"": public / statements.VERIFIED, "attack ": public.parent / "internal" / statements.ATTACKED}
    found = {name: path for name, path in paths.items() if path.is_file() and (not name or public.name == "public")}
    if pem is None:
        why = "was not checked; give the public key of the data holder"
        return [Check(f"{name}signature", True, f"{path.name} {why}", done=False) for name, path in found.items()]
    key = read_public_key(pem)
    missing = [] if "" in found else [Check("signature", False, f"{statements.VERIFIED} is missing")]
    return missing + [check for name in found for check in _check_envelope(name, found[name], public, content, key)]


def _check_envelope(name: str, path: Path, public: Path, content: bytes, key: Any) -> Iterator[Check]:
    part = "signature"
    try:
        body = open_envelope(path.read_bytes(), key)
        yield Check(f"{name}{part}", True, f"{path.name} is signed with this key")
        part = "statement"
        stated, manifest = parse_json(body), parse_json(content)
        if name:
            known = [one for one, entry in manifest["attributes"].items() if entry["role"] == "quasi"]
            built = statements.state_attacked(public, known, path.with_name(statements.RECORD).read_bytes())
        else:
            built = statements.state_verified(public, manifest, str(stated["predicate"].get("timeCreated")))
        if stated.keys() != built.keys():
            raise ManifestError("it does not have the keys of a statement")
        for part in ("statement", "subjects", "results" if name else "properties"):
            keys, fault = _PARTS[part]
            same = all(stated[key] == built[key] for key in keys)
            yield Check(f"{name}{part}", same, f"{path.name}: {'it agrees with the release' if same else fault}")
    except (ManifestError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        fault = str(error) if isinstance(error, ManifestError) else "it is incomplete or cannot be read"
        yield Check(f"{name}{part}", False, f"{path.name}: {fault}")


def open_envelope(content: bytes, key: Any) -> bytes:
    """Return the payload that the key signed, or raise a ManifestError."""
    envelope = parse_json(content)
    if not isinstance(envelope, dict) or envelope.keys() != {"payload", "payloadType", "signatures"}:
        raise ManifestError("it does not have the keys of a DSSE envelope")
    if envelope["payloadType"] != statements.PAYLOAD_TYPE:
        raise ManifestError("its payload type is not the in-toto type")
    if len(envelope["signatures"]) != 1:
        raise ManifestError("it does not have exactly one signature")
    (signature,) = envelope["signatures"]
    if signature != {"keyid": hashlib.sha256(key.public_bytes_raw()).hexdigest(), "sig": signature["sig"]}:
        raise ManifestError("it is signed with another key")
    body = b64decode(envelope["payload"], validate=True)
    try:
        key.verify(b64decode(signature["sig"], validate=True), statements.encode_payload(envelope["payloadType"], body))
    except statements.load_cryptography("exceptions").InvalidSignature:
        raise ManifestError("its signature is not valid for its payload and this key") from None
    return body


def read_public_key(pem: bytes) -> Any:
    """Return the Ed25519 key in a PEM file."""
    try:
        found = statements.load_cryptography("hazmat.primitives.serialization").load_pem_public_key(pem)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, statements.load_cryptography("hazmat.primitives.asymmetric.ed25519").Ed25519PublicKey):
        raise InputError("the public key is not an Ed25519 key, such as `shoal key new --signing` writes to KEY.pub")
    return found
