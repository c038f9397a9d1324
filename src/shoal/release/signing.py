"""The keys (Ed25519) by which data holders sign statements about releases."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.columns.keys import read_private, refuse_public, write_key
from shoal.core.errors import InputError, UsageError
from shoal.core.statements import PAYLOAD_TYPE, encode_payload, load_cryptography


@dataclass(frozen=True, slots=True)
class SigningKey:
    private: Any  # of the package cryptography

    def sign(self, statement: Mapping[str, Any]) -> str:
        """Return a statement in a DSSE envelope, as JSON."""
        body = json.dumps(statement).encode()
        signature = self.private.sign(encode_payload(PAYLOAD_TYPE, body))
        keyid = hashlib.sha256(self.private.public_key().public_bytes_raw()).hexdigest()
        signatures = [{"keyid": keyid, "sig": b64encode(signature).decode()}]
        envelope = {"payload": b64encode(body).decode(), "payloadType": PAYLOAD_TYPE, "signatures": signatures}
        return json.dumps(envelope, indent=1) + "\n"


def new_signing_key(path: Path) -> Path:
    """Write a new private key that only its owner can read, and a public key with suffix ``.pub``; return the latter's
    path.
    """
    private = load_cryptography("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()
    form = load_cryptography("hazmat.primitives.serialization")
    shape = (form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = path.with_name(path.name + ".pub")
    if public.exists():
        raise UsageError(f"{public} exists and a key is never overwritten; choose another path")
    write_key(path, private.private_bytes(*shape))
    write_key(public, private.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    public.chmod(0o644)
    return public


def read_signing_key(path: Path) -> SigningKey:
    """Return a private key; refuse a file that others may read."""
    refuse_public(path)
    try:
        found = load_cryptography("hazmat.primitives.serialization").load_pem_private_key(read_private(path), None)
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise InputError(f"cannot read the key {path}: {reason}; `shoal key new --signing` makes one") from None
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, load_cryptography("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey):
        raise InputError(f"{path} is not a signing key; `shoal key new --signing` makes one")
    return SigningKey(found)
