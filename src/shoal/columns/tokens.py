"""Tokens, hashes and pseudonyms: texts that replace values, equal for equal values."""

from __future__ import annotations

import base64
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

SHORTEST, USUAL, LONGEST = (
    16,
    26,
    51,
)  # characters of five bits; 16 collide among a million values with probability 10**-12


class Token(Technique):
    """Equal values get the same random-looking token within one release, and no one can map tokens back to values.

    Tokens depend on a key that is discarded at the end of the run. Because equal values stay equal, the frequency of a
    value can disclose it.
    """

    name = "token"
    title = "values replaced by tokens, which differ from run to run"
    roles = ("identifier", "quasi", "insensitive")
    verdict = HASHING
    makes_tokens = True

    length: int = Field(default=USUAL, ge=SHORTEST, le=LONGEST, description="characters of a token")

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        same = explain_sameness(entry, "token")
        return (
            f"tokens {explain_place(entry)}. {same} They are new, and the key was discarded, so they cannot be undone."
        )

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        rewrite = make_tokens(chance.keys(4).tobytes(), column, self.length)
        return TokenTreatment(column, pa.string(), self.public(), rewrite)


@dataclass(frozen=True, slots=True, eq=False)
class TokenTreatment(Treatment):
    """Rewrites each distinct value of a batch by a function of its text."""

    rewrite: Callable[[list[str]], pa.Array]  # from (n_values,) texts to tokens

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:  # noqa: ARG002
        indices, values = factor_column(column)
        tokens = self.rewrite(texts(values).to_pylist())
        codes = pa.array(indices, mask=indices < 0)
        return pa.DictionaryArray.from_arrays(codes, tokens)


def make_tokens(key: bytes, domain: str, length: int) -> Callable[[list[str]], pa.Array]:
    """Return a function from texts to the first characters of their HMAC-SHA-256 in base 32.

    The input begins with the domain and its length, which keeps all pairs of domain and text distinct.

    >>> make_tokens(bytes(32), "name", 16)(["Ann", "Bob", "Ann"]).to_pylist()
    ['GCKROU4L3GQ7UL7Z', 'H2DJWXIXMJEMFY5I', 'GCKROU4L3GQ7UL7Z']
    """
    named = domain.encode()
    begun = hmac.new(key, len(named).to_bytes(8) + named, "sha256")

    def rewrite(values: list[str]) -> pa.Array:
        return pa.array([base64.b32encode(_finish(begun, value))[:length].decode() for value in values], pa.string())

    return rewrite


def _finish(begun: hmac.HMAC | hashlib._Hash, value: str) -> bytes:
    code = begun.copy()  # twice as fast as a new HMAC for every value
    code.update(value.encode())
    return code.digest()


def refuse_repeated(source: Source, columns: Sequence[str]) -> None:
    """Raise if a value of one of these columns occurs in several records; missing values do not count.

    Repeated tokens show which records belong to one person. A class of k records could then consist of one person, and
    guarantees about classes would not protect people.
    """
    for column in columns:
        _, (codes,) = encode_columns(source.batches([column], dictionary=[column]))
        records = np.bincount(codes)[1:]
        occurring = records[records > 0]
        repeated = int((occurring > 1).sum())
        if repeated:
            raise PolicyError(
                f"column {column!r}: {repeated} of its {len(occurring)} values are in several records; their tokens "
                "would show which records belong to one person, and classes would protect no one. Remove the "
                "technique, which leaves the column unpublished, or publish one record per person"
            )


def explain_place(entry: Mapping[str, Any]) -> str:
    return "replace an identifier" if entry.get("of") == "identifier" else "replace the values"


def explain_sameness(entry: Mapping[str, Any], what: str) -> str:
    if entry.get("of") == "identifier":
        return f"Rows with the same {what} have the same identifier."
    return f"Equal values have the same {what}, so a value may be guessed by its frequency."


class Hash(Technique):
    """Equal values get the same hash; a random salt prevents dictionary attacks."""

    name = "hash"
    title = "values replaced by SHA-256 hashes"
    roles = ("identifier", "quasi", "insensitive")
    verdict = HASHING
    makes_tokens = True

    salt: Literal["random", "none"] = Field(
        default="random", description="random: 32 random bytes, discarded after the run; none: unsalted hashes"
    )
    accept: Literal["dictionary-attacks"] | None = Field(
        default=None, description="required for unsalted hashes, which a dictionary attack maps back to values"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.salt == "none" and self.accept is None:
            raise ValueError(
                "trying out values undoes unsalted hashes of names, numbers and codes in seconds; use salt: random, a "
                "pseudonym, or accept: dictionary-attacks"
            )
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        if entry["salt"] == "random":
            same = explain_sameness(entry, "hash")
            return f"hashes (SHA-256 with a forgotten salt) {explain_place(entry)}. {same}"
        return (
            f"bare hashes (SHA-256) {explain_place(entry)}. **Anyone can find the values by trying them out**, and all "
            "tables with such hashes can be linked."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        """Without a salt, an adversary can compute the hashes of known values."""
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
    """Equal values, and only these, get equal tokens wherever key and domain are the same.

    The key maps tokens back to persons, by trying values or, if reversible, by decryption. Tokens show which records
    belong to the same person, in this table and all others with this key; records can still be singled out and linked.
    """

    name = "pseudonym"
    title = "values replaced by tokens, the same in all tables of one key"
    roles = ("identifier", "quasi", "insensitive")
    verdict = PSEUDONYMISATION
    makes_tokens = True

    key: str = Field(min_length=1, description="path of the key file, which `shoal key new` creates; never published")
    reversible: bool = Field(default=False, description="whether the key can decrypt tokens to values (AES-SIV)")
    length: int | None = Field(
        default=None,
        ge=SHORTEST,
        le=LONGEST,
        description=f"characters of a token, {USUAL} by default; reversible tokens are as long as their values require",
    )
    domain: str | None = Field(
        default=None,
        min_length=1,
        description="columns of the same domain get the same tokens; by default the column's name",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.reversible and self.length is not None:
            raise ValueError("a reversible pseudonym is as long as its value requires; leave out length")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        key = "decrypt them to the values" if entry["reversible"] else "find out to whom they belong"
        return (
            f"tokens {explain_place(entry)}, the same in all tables of the same key and the domain "
            f"`{entry['domain']}`, which they can link. {explain_sameness(entry, 'token')} Holders of the key can "
            f"{key}."
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
