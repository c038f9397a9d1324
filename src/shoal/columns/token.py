"""Tokens: texts in place of values, the same for the same value, which tell nothing of it without their key."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from shoal.columns.base import NumberDomain, Technique, Treatment
from shoal.columns.verdicts import HASHING
from shoal.core.dictionaries import GrowingDictionary, factor_column
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
        """Say what tokens stand for, and that nothing undoes them."""
        same = explain_sameness(entry, "token")
        return f"tokens {explain_place(entry)}. {same} They are new, and nothing was kept to undo them."

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Draw the run's key."""
        rewrite = make_tokens(chance.keys(4).tobytes(), column, self.length)
        return TokenTreatment(column, pa.string(), self.public(), rewrite)


@dataclass(frozen=True, slots=True, eq=False)
class TokenTreatment(Treatment):
    """Rewrites each distinct value of a batch by a function of its text."""

    rewrite: Callable[[list[str]], pa.Array]  # (n_values,) texts to tokens

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:  # noqa: ARG002
        """Return dictionary-coded tokens."""
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
        digests = b"".join(_finish_code(begun, value) for value in values)
        return base32(np.frombuffer(digests, dtype=np.uint8).reshape(len(values), 32), length)

    return rewrite


def _finish_code(begun: hmac.HMAC, value: str) -> bytes:
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
        known, records = GrowingDictionary(), np.zeros(1, dtype=np.int64)  # records: (n_codes,)
        for batch in source.batches([column], dictionary=[column]):
            indices, values = factor_column(batch.column(0))
            codes = known.codes(values)[indices].astype(np.int64)
            records = np.pad(records, (0, known.size - len(records))) + np.bincount(codes, minlength=known.size)
        occurring = records[1:][records[1:] > 0]
        repeated = int((occurring > 1).sum())
        if repeated:
            raise PolicyError(
                f"column {column!r}: {repeated} of its {len(occurring)} values are in several records; their tokens "
                "would show which records are of one person, so that no class promises anything. Leave out the "
                "technique, so that the column is not published, or publish one record of each person"
            )


def explain_place(entry: Mapping[str, Any]) -> str:
    """Say what tokens stand in place of."""
    return "stand in place of an identifier" if entry.get("of") == "identifier" else "stand in place of the values"


def explain_sameness(entry: Mapping[str, Any], what: str) -> str:
    """Say what rows with the same token have in common."""
    if entry.get("of") == "identifier":
        return f"Rows with the same {what} have the same identifier."
    return f"The same value has the same {what}, so it may be guessed by how often it occurs."
