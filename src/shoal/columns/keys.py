"""Key files of pseudonyms, and tokens that a key decrypts to values (AES-SIV, RFC 5297)."""

from __future__ import annotations

import base64
import binascii
import hmac
import importlib
import os
import stat
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.core.documents import read_json
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.sources.columns import is_text
from shoal.sources.opening import open_source
from shoal.sources.writers import Format, open_writer

KEY_BYTES = 32
PUBLIC = "public"  # the folder of a release that is shared
_MOST_BYTES = 4096
_FEWEST_DISTINCT = 16  # 32 random bytes have fewer with a probability of about 1e-11


def new_key(path: Path) -> None:
    """Write a new key of 32 random bytes to a new file that only its owner may read."""
    key = os.urandom(KEY_BYTES)
    while weakness(key) is not None:
        key = os.urandom(KEY_BYTES)
    write_key(path, key)


def write_key(path: Path, key: bytes) -> None:
    """Write a key to a new file that only its owner may read."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists; keys are never overwritten, because their tokens would be lost") from None
    except OSError as error:
        raise UsageError(f"cannot write the key {path}: {error.strerror or 'input or output error'}") from None
    with os.fdopen(file, "wb") as out:
        out.write(key)
        out.flush()
        os.fsync(out.fileno())


def refuse_public(path: Path) -> None:
    """Raise if a file would be in a public folder."""
    if _is_public(path):
        raise UsageError(f"{path} would be in a folder named {PUBLIC!r}, which is shared; choose another place")


def _is_public(path: Path) -> bool:
    return PUBLIC in path.absolute().resolve().parent.parts


def read_key(path: Path) -> bytes:
    """Return the bytes of a key file; refuse a key that others may read or could guess."""
    if _is_public(path):
        raise InputError(
            f"the key {path} is in a folder named {PUBLIC!r}, which is shared; move it, or create a new one if "
            "others have seen it"
        )
    try:
        key = read_private(path)
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise InputError(f"cannot read the key {path}: {reason}; `shoal key new` creates one") from None
    weak = weakness(key)
    if weak is not None:
        raise InputError(f"the key {path} {weak}; `shoal key new` creates a key that cannot be guessed")
    return key


def read_private(path: Path) -> bytes:
    """Return the first bytes of a file, up to one more than a key may have; refuse a file that others may access."""
    with path.open("rb") as file:
        if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise InputError(f"the key {path} may be read or changed by others; restrict access with chmod 600")
        return file.read(_MOST_BYTES + 1)


def weakness(key: bytes) -> str | None:
    """Return a visible reason why a key could be guessed; None if there is none.

    >>> weakness(b"correct horse battery staple, and more")
    'is text, which people choose badly'
    >>> weakness(bytes(range(200, 232)))
    'follows a pattern'
    """
    if len(key) < KEY_BYTES:
        return f"has {len(key)} bytes and needs {KEY_BYTES}"
    if len(key) > _MOST_BYTES:
        return f"has more than {_MOST_BYTES} bytes and is not a key"
    if _is_text(key):
        return "is text, which people choose badly"
    if len(set(key)) < _FEWEST_DISTINCT:
        return f"has too few different bytes ({len(set(key))})"
    steps = bytes((after - before) % 256 for before, after in pairwise(key))
    if len(set(steps)) < _FEWEST_DISTINCT // 2 or any(len(zlib.compress(said, 9)) < len(said) for said in (key, steps)):
        return "follows a pattern"
    return None


def _is_text(key: bytes) -> bool:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)


_PADDED = 16  # bytes; tokens disclose the lengths of values only in multiples of this


def seal_tokens(key: bytes, domain: str) -> Callable[[list[str]], pa.Array]:
    """Return a function from texts to tokens, which :func:`open_tokens` inverts."""
    cipher, bound = _cipher(key), [domain.encode()]

    def rewrite(values: list[str]) -> pa.Array:
        marked = [value.encode() + b"\x80" for value in values]
        padded = [text + bytes(-len(text) % _PADDED) for text in marked]
        sealed = [base64.b32encode(cipher.encrypt(text, bound)) for text in padded]
        return pa.array([token.decode().rstrip("=") for token in sealed], pa.string())

    return rewrite


def open_tokens(tokens: pa.Array, key: bytes, domain: str) -> pa.Array:
    """Return the texts of tokens; refuse changed tokens, and tokens of other keys or domains."""
    cipher, bound = _cipher(key), [domain.encode()]
    invalid = importlib.import_module("cryptography.exceptions").InvalidTag
    coded = tokens.dictionary_encode()
    opened: list[str] = []
    refused = 0
    for token in coded.dictionary.to_pylist():
        try:
            sealed = base64.b32decode(token + "=" * (-len(token) % 8))
            opened.append(cipher.decrypt(sealed, bound).rstrip(b"\0").removesuffix(b"\x80").decode())
        except (invalid, binascii.Error, ValueError):
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
    # A derived key, because the same key file may also be used for irreversible tokens.
    return ciphers.AESSIV(hmac.digest(key, b"shoal reversible pseudonyms", "sha512"))


def write_opened(path: Path, column: str, key: Path, out: Path, domain: str | None = None) -> dict[str, object]:
    """Write the rows of a released file with the tokens of one column decrypted to their values.

    The new file has the format of the old one, and only its owner may read it. Nothing is written if a token was
    changed or belongs to another key or domain. The default *domain* is the one in the manifest next to the file or,
    if there is no manifest, the column's name.
    """
    refuse_public(out)
    forms: list[Format] = ["parquet" if file.suffix.lower() in (".parquet", ".pq") else "csv" for file in (path, out)]
    if forms[0] != forms[1] or path.is_dir():
        raise UsageError(f"{out.name} must have the format of {path.name}, a file of rows: give it the same ending")
    source = open_source(path)
    known = source.schema.names
    if column not in known:
        raise InputError(f"column {column!r} is not in {source.name}{did_you_mean(column, known)}")
    if not is_text(source.schema.field(column).type):
        raise InputError(f"column {column!r} of {source.name} does not hold texts, so it has no tokens")
    said = _technique(path.parent / "manifest.json", column)
    if said.get("reversible") is False:
        raise UsageError(
            f"the manifest says that the pseudonyms of {column!r} are not reversible. To find the token of a value "
            "that you know, treat the value with the same key and domain"
        )
    within = domain or str(said.get("domain", column))
    secret = read_key(key)
    with open_writer(out, source.schema, forms[0], private=True) as writer:
        for batch in source.batches():
            arrays = dict(zip(known, batch.columns, strict=True))
            arrays[column] = open_tokens(arrays[column], secret, within)
            writer.write(pa.RecordBatch.from_arrays(list(arrays.values()), names=known))
    return {"out": str(out), "rows": writer.rows, "column": column, "domain": within}


def _technique(manifest: Path, column: str) -> dict[str, object]:
    """Return a manifest's entry on the technique of a column, or an empty one."""
    try:
        said = read_json(manifest.read_bytes())["techniques"][column]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return said if isinstance(said, dict) else {}
