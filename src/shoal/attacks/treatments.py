"""What techniques did to the columns of a release, as somebody takes it who has read the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.columns.numbers import decimals_of
from shoal.core.arrays import FloatArray
from shoal.taxonomies.parse import decimal_numbers, texts

TOKENS = ("pseudonym", "token", "hash")
MOSTLY = 0.5  # of the records, beyond which an exchanged value is no better than none


@dataclass(frozen=True, slots=True, eq=False)
class Treatments:
    """The manifest's techniques, and what they leave for an adversary to use.

    Tokens of a key or a salt that nobody has say nothing of a person; hashes without a salt say all, for whoever knows
    the value can hash it. Rounding to the nearest and coding are done to what is known of a person in the same way.
    """

    techniques: Mapping[str, Mapping[str, Any]]
    attributes: Mapping[str, Mapping[str, Any]]  # as the manifest has them, with roles as an adversary sees them
    tokens: tuple[str, ...]  # quasi attributes that nobody can look people up by
    named: tuple[str, ...]  # identifiers that everybody can
    centres: bool
    nobodys: bool

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Treatments:
        """Read a manifest; one without techniques has none."""
        techniques: Mapping[str, Mapping[str, Any]] = manifest.get("techniques", {})
        attributes, tokens, named = {}, [], []
        for name, entry in manifest["attributes"].items():
            technique = techniques.get(name, {})
            attributes[name] = entry
            if is_secret_token(technique) and entry["role"] == "quasi":
                tokens.append(name)
                attributes[name] = {**entry, "role": "insensitive"}
            elif is_bare_hash(technique) and technique.get("of") == "identifier":
                named.append(name)
                attributes[name] = {**entry, "role": "quasi"}
        method = manifest.get("method")
        return cls(
            techniques, attributes, tuple(tokens), tuple(named), method == "microaggregation", method == "synthetic"
        )

    @property
    def shown(self) -> set[str]:
        """The published columns in which a value can be read, or computed, by whoever knows it."""
        return {name for name in self.attributes if self.technique(name) not in TOKENS}

    @property
    def of_quasi(self) -> bool:
        """Whether any quasi attribute is not as it was in the source."""
        quasi = [name for name, entry in self.attributes.items() if entry["role"] == "quasi"]
        return bool(self.tokens) or any(name in self.techniques for name in quasi)

    def notes(self, known: Sequence[str]) -> list[str]:
        """Return what to know of an attack on such columns, given the attributes that people are known by."""
        notes = [f"nobody is looked up by {name!r}: its tokens tell nothing without their key" for name in self.tokens]
        notes += [f"{name!r} was hashed without a salt, so whoever knows a name has its hash" for name in self.named]
        for name in known:
            if self.is_unlinked(name):
                notes.append(f"nobody is looked up by {name!r}: its values stand in rows of other people")
            elif self.share_moved(name) or self.blur(name):
                notes.append(f"{name!r} need not show people's own values: rows that are near count where none fits")
        if self.centres:
            notes.append("quasi values are those of groups: rows that are near count where none fits")
        if self.nobodys:
            notes.append("rows are synthetic: what fits a person, or is nearest, is nobody's own record")
        return notes

    def technique(self, name: str) -> str | None:
        """Return the name of what was done to a column."""
        return self.techniques.get(name, {}).get("technique")

    def is_unlinked(self, name: str) -> bool:
        """Whether the values of a column mostly stand in other rows than their own."""
        return self.share_moved(name) > MOSTLY

    def share_moved(self, name: str) -> float:
        """Return the share of a column's values that were exchanged or permuted."""
        if self.technique(name) == "permutation":
            return 1.0
        return float(self.techniques[name]["share"]) if self.technique(name) == "swapping" else 0.0

    def within(self, name: str) -> tuple[str, ...]:
        """Return the columns whose groups kept their values of this column when they were moved."""
        return tuple(self.techniques.get(name, {}).get("within", ()))

    def blur(self, name: str) -> float:
        """Return how far a published number usually is from the true one, by the technique's own parameters."""
        technique = self.techniques.get(name, {})
        if self.technique(name) == "noise":
            noise = technique.get("laplace") or technique.get("gaussian") or {}
            return float(noise.get("scale", noise.get("sd", 0.0)))
        return float(technique["base"]) if self.technique(name) == "rounding" and technique.get("random") else 0.0

    def by_chance(self, name: str) -> bool:
        """Whether a published value need not be what the person's own leads to."""
        return self.share_moved(name) > 0 or self.blur(name) > 0 or self.centres or self.nobodys

    def changes_numbers(self, name: str) -> bool:
        """Whether a column's numbers were changed, so that equal ones need not be published as equal."""
        return self.technique(name) in ("noise", "rounding", "coding")

    def apply(self, name: str, values: pa.Array, published: tuple[float, float] | None) -> pa.Array:
        """Return what is published for people with these values, if that follows from the values; else the values.

        *published* are the least and greatest number of the column: a multiple that would lie next beyond is outside
        of a declared domain, where the last one inside is taken.

        >>> rounding = {"age": {"technique": "rounding", "base": 5, "random": False}}
        >>> told = Treatments(rounding, {}, (), (), False, False)
        >>> told.apply("age", pa.array(["37.5", "98"]), (20.0, 95.0)).to_pylist()
        [40.0, 95.0]
        """
        technique = self.techniques.get(name, {})
        if is_bare_hash(technique):
            return pa.array(
                [None if text is None else _sha256(text) for text in texts(values).to_pylist()], pa.string()
            )
        if self.technique(name) not in ("rounding", "coding") or self.blur(name):
            return values
        numbers, valid = decimal_numbers(values)
        if self.technique(name) == "rounding":
            found = _round(numbers, technique["base"], published)
        else:
            found = np.clip(
                _on_grid(numbers, int(technique.get("decimals", 0))),
                technique.get("bottom", -np.inf),
                technique.get("top", np.inf),
            )
        return pa.array(found, mask=~valid)


def is_secret_token(technique: Mapping[str, Any]) -> bool:
    """Whether nobody without a key, or a salt, can tell which value a token stands for."""
    return technique.get("technique") in TOKENS and not is_bare_hash(technique)


def is_bare_hash(technique: Mapping[str, Any]) -> bool:
    """Whether whoever knows a value can compute its hash."""
    return technique.get("technique") == "hash" and technique.get("salt") == "none"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _round(numbers: FloatArray, base: float, published: tuple[float, float] | None) -> FloatArray:
    """Return the nearest multiples, halves up, computed as the technique does."""
    unit = 10.0 ** decimals_of(base)
    step = round(base * unit)
    multiples = np.floor(numbers * unit / step + 0.5)
    if published is not None:
        first, last = round(published[0] / base), round(published[1] / base)
        multiples = np.where(multiples == first - 1, first, np.where(multiples == last + 1, last, multiples))
    return np.asarray(multiples * step / unit)


def _on_grid(numbers: FloatArray, decimals: int) -> FloatArray:
    return np.asarray(np.rint(numbers * 10.0**decimals) / 10.0**decimals)
