"""Tokens: texts of a declared form, as many equal ones as the source has equal values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.verify.fields import ManifestError, check_keys, whole
from shoal.verify.techniques.base import Declared, kept_missing
from shoal.verify.techniques.values import ColumnValues, as_texts

_SHORTEST, _LONGEST = 16, 51  # characters of a token that its key does not take back
BASE32 = "[A-Z2-7]"


@dataclass(frozen=True, slots=True)
class Tokens(Declared):
    """Texts that stand for values, equal ones for equal values."""

    roles: ClassVar[tuple[str, ...]] = ("quasi", "insensitive")

    of_identifier: bool

    @property
    def form(self) -> str:
        """The regular expression of a token."""
        raise NotImplementedError

    def misshapen(self, published: ColumnValues) -> str | None:
        """Tokens have the declared form."""
        formed = pc.match_substring_regex(published.texts(), pattern=f"^{self.form}$")
        return (
            None if bool(pc.all(formed, min_count=0).as_py()) else "has texts that are no tokens of the declared form"
        )

    def unlike(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Numbers of equal tokens fit numbers of equal values, and no token is a value.

        Each token stands for a value of its own and in no more rows: sorted from the largest, no number of the release
        is above that of the source.
        """
        if fault := kept_missing(published, original):
            return fault
        mine, theirs = np.sort(published.counts)[::-1], np.sort(original.counts)[::-1]
        if len(mine) > len(theirs) or bool((mine > theirs[: len(mine)]).any()):
            return "has other numbers of equal tokens than the source has of equal values"
        return self.telling(published, original)

    def telling(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Return a fault if there are more tokens than values of the source, or if they tell whose they are."""
        if len(published.values) > len(original.values):
            return "has more tokens than the source has values"
        if self.told(published.texts(), original.values):
            return "has values of the source, or their bare hashes, in place of tokens"
        return None

    def told(self, tokens: pa.Array, values: pa.Array) -> bool:
        """Whether tokens are values of the source."""
        return among(tokens, as_texts(values))

    @property
    def confirmed(self) -> str:
        """What was found."""
        return "tokens have the declared form"


def among(texts: pa.Array, others: pa.Array) -> bool:
    """Whether one of the texts is one of the others."""
    return bool(pc.any(pc.is_in(texts, value_set=others), min_count=0).as_py())


def of_identifier(entry: Mapping[str, Any], where: str) -> bool:
    """Return whether the tokens stand for an identifier."""
    if "of" in entry and entry["of"] != "identifier":
        raise ManifestError(f"{where}.of is not 'identifier'")
    return "of" in entry


def length_of(entry: Mapping[str, Any], where: str) -> int:
    """Return the declared length of tokens, or raise a ManifestError."""
    length = whole(entry["length"], f"{where}.length")
    if not _SHORTEST <= length <= _LONGEST:
        raise ManifestError(f"{where}.length is not from {_SHORTEST} to {_LONGEST}")
    return length


@dataclass(frozen=True, slots=True)
class Hash(Tokens):
    """SHA-256 of values; without a salt it can be recomputed."""

    name: ClassVar[str] = "hash"

    salted: bool

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Hash:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "salt"), ("of",))
        if entry["salt"] not in ("random", "none"):
            raise ManifestError(f"{where}.salt is neither random nor none")
        return cls(column, of_identifier(entry, where), entry["salt"] == "random")

    @property
    def form(self) -> str:
        """64 hexadecimal digits."""
        return "[0-9a-f]{64}"

    @property
    def determined(self) -> bool:
        """A bare hash follows from the value."""
        return not self.salted

    @property
    def kind(self) -> pa.DataType:
        """Hashes are text."""
        return pa.string()

    def recomputed(self, values: pa.Array) -> pa.Array:
        """Return the bare hashes."""
        texts = as_texts(values).to_pylist()
        return pa.array([hashlib.sha256(text.encode()).hexdigest() for text in texts], pa.string())

    def told(self, tokens: pa.Array, values: pa.Array) -> bool:
        """Whether tokens are values, or bare hashes that are said to be salted."""
        return among(tokens, as_texts(values)) or (self.salted and among(tokens, self.recomputed(values)))
