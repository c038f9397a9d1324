"""Whether the manifest is the one that its owner wrote: by the digest kept in ``internal``, and by a signature."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any

from shoal.core.errors import InputError, UsageError
from shoal.manifest import ManifestError, parse_json
from shoal.verify.result import Check

SIGNATURE = "manifest.sig"


def check_recorded(public: Path, content: bytes) -> list[Check]:
    """Compare the manifest with the digest in ``internal/evidence.json``, if that lies beside the public folder."""
    path = public.parent / "internal" / "evidence.json"
    if public.name != "public" or not path.is_file():
        return []
    try:
        evidence = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        evidence = None
    if not isinstance(evidence, dict) or not isinstance(evidence.get("manifest", {}), dict):
        return [Check("recorded", False, "internal/evidence.json cannot be read")]
    if "manifest" not in evidence:
        return [Check("recorded", True, "internal/evidence.json has no digest of the manifest", done=False)]
    same = evidence["manifest"].get("sha256") == hashlib.sha256(content).hexdigest()
    is_it = "is" if same else "is not"
    return [Check("recorded", same, f"the manifest {is_it} the one that internal/evidence.json was written with")]


def check_signature(public: Path, content: bytes, key: bytes | None) -> list[Check]:
    """Check the signature of the manifest with a public key; without a key it is told that this was not done."""
    path = public / SIGNATURE
    if key is None:
        unknown = "the release is signed; give the public key of whoever signed it to check that"
        return [Check("signature", True, unknown, done=False)] if path.is_file() else []
    verifier = _public_key(key)
    try:
        verifier.verify(bytes.fromhex(path.read_text(encoding="ascii").strip()), content)
    except OSError:
        return [Check("signature", False, "there is no signature")]
    except (ValueError, importlib.import_module("cryptography.exceptions").InvalidSignature):
        return [Check("signature", False, "the signature is not that of this manifest by this key")]
    return [Check("signature", True, "the manifest is signed with this key")]


def _public_key(pem: bytes) -> Any:
    try:
        package = "cryptography.hazmat.primitives"
        serialization = importlib.import_module(f"{package}.serialization")
        kind = importlib.import_module(f"{package}.asymmetric.ed25519").Ed25519PublicKey
    except ImportError:
        raise UsageError("signatures need the package cryptography: pip install 'shoal[pseudonyms]'") from None
    try:
        found = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, kind):
        raise InputError(
            "the public key is none of Ed25519, as `shoal key new --signing` writes it beside the private one"
        )
    return found
