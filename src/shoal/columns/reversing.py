"""Tokens that their key takes back: authenticated, deterministic encryption (AES-SIV, RFC 5297)."""

from __future__ import annotations

import base64
import binascii
import hmac
import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from shoal.core.errors import InputError, UsageError

_PADDED = 16  # bytes; a token tells the length of its value only up to this


def sealed_tokens(key: bytes, domain: str) -> Callable[[list[str]], pa.Array]:
    """Return a function from texts to tokens that :func:`opened_tokens` takes back."""
    cipher, bound = _cipher(key), [domain.encode()]

    def rewrite(values: list[str]) -> pa.Array:
        sealed = [base64.b32encode(cipher.encrypt(_padded(value.encode()), bound)) for value in values]
        return pa.array([token.decode().rstrip("=") for token in sealed], pa.string())

    return rewrite


def opened_tokens(tokens: pa.Array, key: bytes, domain: str) -> pa.Array:
    """Return the texts of tokens; one of another key or domain, or one that was changed, is refused."""
    cipher, bound = _cipher(key), [domain.encode()]
    coded = tokens.dictionary_encode()
    opened: list[str] = []
    refused = 0
    for token in coded.dictionary.to_pylist():
        try:
            sealed = base64.b32decode(token + "=" * (-len(token) % 8))
            opened.append(_unpadded(cipher.decrypt(sealed, bound)).decode())
        except (_invalid_tag(), binascii.Error, ValueError):
            refused += 1
    if refused:
        raise InputError(
            f"{refused} of {len(coded.dictionary)} tokens were changed, or are not of this key and domain {domain!r}"
        )
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(opened, pa.string())).dictionary_decode()


def _cipher(key: bytes) -> Any:
    try:
        ciphers = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ImportError:
        raise UsageError(
            "reversible pseudonyms need the package cryptography: pip install 'shoal[pseudonyms]'"
        ) from None
    # A key of its own: the same key file may also serve tokens that cannot be taken back.
    return ciphers.AESSIV(hmac.digest(key, b"shoal reversible pseudonyms", "sha512"))


def _invalid_tag() -> type[Exception]:
    refused: type[Exception] = importlib.import_module("cryptography.exceptions").InvalidTag
    return refused


def _padded(text: bytes) -> bytes:
    marked = text + b"\x80"
    return marked + bytes(-len(marked) % _PADDED)


def _unpadded(padded: bytes) -> bytes:
    return padded.rstrip(b"\0").removesuffix(b"\x80")
