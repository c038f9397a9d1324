"""Pseudonyms: tokens of a key file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.verify.fields import ManifestError, check_keys, text_of
from shoal.verify.techniques.tokens import BASE32, Tokens, length_of, of_identifier

_LETTERS_OF_BLOCK = 8 * 16 / 5  # base-32 characters of a block of 16 bytes


@dataclass(frozen=True, slots=True)
class Pseudonym(Tokens):
    """Tokens of a key file."""

    name: ClassVar[str] = "pseudonym"

    length: int | None  # None: they can be taken back, and are as long as their values need

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Pseudonym:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "reversible", "domain"), ("length", "of"))
        text_of(entry["domain"], f"{where}.domain")
        if not isinstance(entry["reversible"], bool) or entry["reversible"] is ("length" in entry):
            raise ManifestError(f"{where} is reversible and has a length, or is not and has none")
        length = None if entry["reversible"] else length_of(entry, where)
        return cls(column, of_identifier(entry, where), length)

    @property
    def form(self) -> str:
        """Characters of base 32; of reversible ones those of 32, 48, 64 ... bytes."""
        if self.length is not None:
            return f"{BASE32}{{{self.length}}}"
        # Five blocks are 128 characters.
        ends = "|".join(f"{BASE32}{{{-int(-_LETTERS_OF_BLOCK * blocks // 1)}}}" for blocks in range(2, 7))
        return f"({BASE32}{{128}})*({ends})"
