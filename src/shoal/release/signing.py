"""Signatures of releases (Ed25519): who has the data holder's public key can tell that a manifest is theirs.

The signature is of the manifest's exact bytes, and the manifest has the digests of all other public files.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.columns.keys import read_private, refuse_public, write_key
from shoal.core.errors import InputError, UsageError

SIGNATURE = "manifest.sig"  # its name in the public folder


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key."""

    private: Any  # of the package cryptography

    def sign(self, content: bytes) -> bytes:
        """Return the signature as a line of hexadecimal digits."""
        signature: bytes = self.private.sign(content)
        return signature.hex().encode() + b"\n"

    @property
    def public(self) -> bytes:
        """The public key as people pass it on: PEM."""
        form = _package("serialization")
        pem: bytes = self.private.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        return pem


def new_signing_key(path: Path) -> Path:
    """Write a new private key, for its owner's eyes only, and beside it the public one, whose path is returned."""
    private = SigningKey(_package("asymmetric.ed25519").Ed25519PrivateKey.generate())
    form = _package("serialization")
    shape = (form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    beside = path.with_name(path.name + ".pub")
    if beside.exists():
        raise UsageError(f"{beside} exists; a key is never written over")
    write_key(path, private.private.private_bytes(*shape))
    write_key(beside, private.public)
    beside.chmod(0o644)
    return beside


def read_signing_key(path: Path) -> SigningKey:
    """Return a private key; one that others may read is refused."""
    refuse_public(path)
    try:
        found = _package("serialization").load_pem_private_key(read_private(path), None)
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise InputError(f"cannot read the key {path}: {reason}; `shoal key new --signing` makes one") from None
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, _package("asymmetric.ed25519").Ed25519PrivateKey):
        raise InputError(f"{path} is not a signing key; `shoal key new --signing` makes one")
    return SigningKey(found)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(f"cryptography.hazmat.primitives.{name}")
    except ImportError:
        raise UsageError("signatures need the package cryptography: pip install 'shoal[pseudonyms]'") from None
