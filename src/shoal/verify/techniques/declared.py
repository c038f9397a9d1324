"""The techniques that a manifest can declare, those included that only move values between rows.

Another package that adds a technique registers how the verifier reads it, a subclass of ``Declared``, under the
technique's name in the entry point group ``shoal.declared``. Without it no release with the technique is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from shoal.manifest import Attribute, Listed, ManifestError, read_entry
from shoal.verify.techniques.base import Declared
from shoal.verify.techniques.numbers import Coding, Noise, Rounding
from shoal.verify.techniques.tokens import Hash, Pseudonym, Token, Tokens


class Moved(Declared):
    """Rows have each other's values, within groups of rows that agreed in some columns of the source."""

    moved: ClassVar[bool] = True

    within: Listed[str]

    @model_validator(mode="after")
    def _fits(self) -> Moved:
        if self.column in self.within or len(set(self.within)) != len(self.within):
            raise ValueError("names a column twice in within, or the column itself")
        return self

    @property
    def finding(self) -> str:
        """What was found."""
        return "values are among the source's, each no more often than there; that they were moved, no file shows"


class Permutation(Moved):
    """All values of a group were put in a random order."""


class Swapping(Moved):
    """A share of the rows of a group exchanged their values in pairs."""

    share: Annotated[float, Field(gt=0, le=1)]


GROUP = "shoal.declared"  # of entry points
TECHNIQUES: dict[str, type[Declared]] = {
    "coding": Coding,
    "hash": Hash,
    "noise": Noise,
    "permutation": Permutation,
    "pseudonym": Pseudonym,
    "rounding": Rounding,
    "swapping": Swapping,
    "token": Token,
}


def find_technique(name: object) -> type[Declared] | None:
    """Return a technique of this verifier or, if another package registered one, of that; None if nobody knows it."""
    if not isinstance(name, str) or name in TECHNIQUES:
        return TECHNIQUES.get(str(name))
    for entry in entry_points(group=GROUP, name=name):
        found = entry.load()
        if isinstance(found, type) and issubclass(found, Declared):
            return found
    return None


def read_techniques(entries: Mapping[str, Mapping[str, Any]], attributes: Sequence[Attribute]) -> dict[str, Declared]:
    """Return what is declared of every changed column, or raise a ManifestError."""
    by_name = {attribute.name: attribute for attribute in attributes}
    found: dict[str, Declared] = {}
    for column, entry in entries.items():
        where = f"techniques.{column}"
        if column not in by_name:
            raise ManifestError(f"{where} is no attribute of the release")
        technique, attribute = find_technique(entry.get("technique")), by_name[column]
        if technique is None:
            raise ManifestError(f"{where}.technique is none that this verifier knows")
        if "column" in entry:
            raise ManifestError(f"{where} has 1 keys that do not belong there")
        declared = read_entry(technique, {**entry, "column": column}, where)
        if attribute.role not in declared.roles:
            raise ManifestError(f"{where} is a technique that no {attribute.role} attribute can have")
        person = isinstance(declared, Tokens) and declared.of is not None
        if person and (attribute.role, attribute.kind) != ("insensitive", "category"):
            raise ManifestError(f"{where} stands for an identifier, and yet is not an insensitive category")
        found[column] = declared
    return found
