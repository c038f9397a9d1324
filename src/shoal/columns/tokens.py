"""Tokens, hashes and pseudonyms: texts in place of values, the same for the same value."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.columns.base import HASHING, PSEUDONYMISATION, NumberDomain, Technique, Trace, Treatment
from shoal.columns.keys import read_key, seal_tokens
from shoal.core.dictionaries import encode_columns, factor_column
from shoal.core.errors import PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import Source
from shoal.taxonomies.parse import texts

SHORTEST, USUAL, LONGEST = 16, 26, 51  # characters of five bits; two of a million values meet in 16 once in 10**12
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", dtype=np.uint8)


class Token(Technique):
    """The same value gets the same random-looking token within one release, and nothing is kept to find it again.

    Tokens follow from a key of the run that is forgotten with it. Equal values stay equal: how often a value occurs
    can give it away.
    """

    name = "token"
    title = "tokens in place of values, new ones in every run"
    roles = ("identifier", "quasi", "insensitive")
    verdict = HASHING
    makes_tokens = True

    length: int = Field(default=USUAL, ge=SHORTEST, le=LONGEST, description="characters of a token")

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        same = explain_sameness(entry, "token")
        return f"tokens {explain_place(entry)}. {same} They are new, and nothing was kept to undo them."

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        rewrite = make_tokens(chance.keys(4).tobytes(), column, self.length)
        return TokenTreatment(column, pa.string(), self.public(), rewrite)


@dataclass(frozen=True, slots=True, eq=False)
class TokenTreatment(Treatment):
    """Rewrites each distinct value of a batch by a function of its text."""

    rewrite: Callable[[list[str]], pa.Array]  # (n_values,) texts to tokens

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:  # noqa: ARG002
        indices, values = factor_column(column)
        tokens = self.rewrite(texts(values).to_pylist())
        codes = pa.array(indices, mask=indices < 0)
        return pa.DictionaryArray.from_arrays(codes, tokens)


def make_tokens(key: bytes, domain: str, length: int) -> Callable[[list[str]], pa.Array]:
    """Return a function from texts to the first characters of their HMAC-SHA-256 in base 32.

    The domain goes into it with its own length first, so that no two pairs of domain and text look the same.

    >>> make_tokens(bytes(32), "name", 16)(["Ann", "Bob", "Ann"]).to_pylist()
    ['GCKROU4L3GQ7UL7Z', 'H2DJWXIXMJEMFY5I', 'GCKROU4L3GQ7UL7Z']
    """
    named = domain.encode()
    begun = hmac.new(key, len(named).to_bytes(8) + named, "sha256")

    def rewrite(values: list[str]) -> pa.Array:
        digests = b"".join(_finish(begun, value) for value in values)
        return base32(np.frombuffer(digests, dtype=np.uint8).reshape(len(values), 32), length)

    return rewrite


def _finish(begun: hmac.HMAC | hashlib._Hash, value: str) -> bytes:
    code = begun.copy()  # twice as fast as starting anew for every value
    code.update(value.encode())
    return code.digest()


def base32(rows: np.ndarray, length: int) -> pa.Array:
    """Return the first *length* base-32 characters (RFC 4648) of each row of (n_rows, n_bytes) bytes."""
    n_rows = len(rows)
    bits = np.unpackbits(rows, axis=1)[:, : 5 * length].reshape(n_rows, length, 5)
    letters = _ALPHABET[bits @ np.array([16, 8, 4, 2, 1], dtype=np.uint8)]  # (n_rows, length)
    offsets = np.arange(n_rows + 1, dtype=np.int32) * np.int32(length)
    return pa.StringArray.from_buffers(n_rows, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(letters)))


def refuse_repeated(source: Source, columns: Sequence[str]) -> None:
    """Raise if a value of one of these columns is in several records; missing values are nobody's.

    Tokens of a person with several records show that these belong together: a class of k records may then be of one
    person, and what is promised of classes would not hold for people.
    """
    for column in columns:
        _, (codes,) = encode_columns(source.batches([column], dictionary=[column]))
        records = np.bincount(codes)[1:]
        occurring = records[records > 0]
        repeated = int((occurring > 1).sum())
        if repeated:
            raise PolicyError(
                f"column {column!r}: {repeated} of its {len(occurring)} values are in several records; their tokens "
                "would show which records are of one person, so that no class promises anything. Leave out the "
                "technique, so that the column is not published, or publish one record of each person"
            )


def explain_place(entry: Mapping[str, Any]) -> str:
    return "stand in place of an identifier" if entry.get("of") == "identifier" else "stand in place of the values"


def explain_sameness(entry: Mapping[str, Any], what: str) -> str:
    """Say what rows with the same token have in common."""
    if entry.get("of") == "identifier":
        return f"Rows with the same {what} have the same identifier."
    return f"The same value has the same {what}, so it may be guessed by how often it occurs."


class Hash(Technique):
    """The same value gets the same hash; with a random salt nobody can try values out, without one everybody can.

    >>> Hash(salt="none", accept="dictionary-attacks").salt
    'none'
    """

    name = "hash"
    title = "SHA-256 in place of values"
    roles = ("identifier", "quasi", "insensitive")
    verdict = HASHING
    makes_tokens = True

    salt: Literal["random", "none"] = Field(
        default="random", description="random: 32 bytes that nobody knows after the run; none: the bare hash"
    )
    accept: Literal["dictionary-attacks"] | None = Field(
        default=None, description="must be said for hashes without a salt: whoever tries all values finds each of them"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.salt == "none" and self.accept is None:
            raise ValueError(
                "a hash without a salt is undone by trying values out, which takes seconds for names, numbers and "
                "codes; use salt: random, a pseudonym, or say accept: dictionary-attacks"
            )
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        if entry["salt"] == "random":
            same = explain_sameness(entry, "hash")
            return f"hashes (SHA-256 with a forgotten salt) {explain_place(entry)}. {same}"
        return (
            f"bare hashes (SHA-256) {explain_place(entry)}. **Whoever tries values out finds which they are**, and all "
            "tables with such hashes can be linked by them."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        """Whoever knows a value can compute its hash, if there is no salt."""
        return Trace(tokens=True, replay=_hash_values if entry.get("salt") == "none" else None)

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        salted = hashlib.sha256(b"" if self.salt == "none" else chance.keys(4).tobytes())

        def rewrite(values: list[str]) -> pa.Array:
            return pa.array([_finish(salted, value).hex() for value in values], pa.string())

        return TokenTreatment(column, pa.string(), {"technique": self.name, "salt": self.salt}, rewrite)


def _hash_values(values: pa.Array, published: object) -> pa.Array:  # noqa: ARG001
    hashes = [None if text is None else hashlib.sha256(text.encode()).hexdigest() for text in texts(values).to_pylist()]
    return pa.array(hashes, pa.string())


class Pseudonym(Technique):
    """The same value gets the same token wherever the key and the domain are the same, and no other value does.

    Whoever has the key can find out whose token it is, by trying values or, if reversible, by taking it back. The
    tokens say who is the same person, in this table and in all others of this key: records can still be singled out
    and linked.
    """

    name = "pseudonym"
    title = "tokens in place of values, the same in all tables of one key"
    roles = ("identifier", "quasi", "insensitive")
    verdict = PSEUDONYMISATION
    makes_tokens = True

    key: str = Field(min_length=1, description="path of the key file, which `shoal key new` makes; never published")
    reversible: bool = Field(default=False, description="whether the key takes tokens back to values (AES-SIV)")
    length: int | None = Field(
        default=None,
        ge=SHORTEST,
        le=LONGEST,
        description=f"characters of a token, {USUAL} by default; a reversible one is as long as its value needs",
    )
    domain: str | None = Field(
        default=None,
        min_length=1,
        description="columns of the same domain get the same tokens; by default that is the column's name",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.reversible and self.length is not None:
            raise ValueError("a reversible pseudonym has no length of its own: it must hold the value; leave it out")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        key = "take them back to the values" if entry["reversible"] else "find out whose they are"
        return (
            f"tokens {explain_place(entry)}, the same in all tables of the same key and the domain "
            f"`{entry['domain']}`: these can be linked by them. {explain_sameness(entry, 'token')} Whoever has the key "
            f"can {key}."
        )

    def resolve(self, base: Path) -> Self:
        return self.model_copy(update={"key": str(base / self.key)})

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        key, where = read_key(Path(self.key)), self.domain or column
        said = {"technique": self.name, "reversible": self.reversible, "domain": where}
        if self.reversible:
            return TokenTreatment(column, pa.string(), said, seal_tokens(key, where))
        length = self.length or USUAL
        return TokenTreatment(column, pa.string(), said | {"length": length}, make_tokens(key, where, length))
