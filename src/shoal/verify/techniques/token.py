"""Tokens of one run: nobody can compute them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.verify.fields import check_keys
from shoal.verify.techniques.tokens import BASE32, Tokens, length_of, of_identifier


@dataclass(frozen=True, slots=True)
class Token(Tokens):
    """Tokens of one run."""

    name: ClassVar[str] = "token"

    length: int

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Token:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "length"), ("of",))
        return cls(column, of_identifier(entry, where), length_of(entry, where))

    @property
    def form(self) -> str:
        """Characters of base 32."""
        return f"{BASE32}{{{self.length}}}"
