"""Hashes: with a forgotten salt they are tokens, without one they are recomputed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from shoal.verify.fields import ManifestError, check_keys
from shoal.verify.techniques.tokens import Tokens, among, of_identifier
from shoal.verify.techniques.values import as_texts


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
