"""Reading the techniques of a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.verify.attributes import Attribute
from shoal.verify.fields import ManifestError, mapping, text_of
from shoal.verify.techniques.base import Declared
from shoal.verify.techniques.coding import Coding
from shoal.verify.techniques.noise import Noise
from shoal.verify.techniques.permutation import Permutation
from shoal.verify.techniques.pseudonym import Pseudonym
from shoal.verify.techniques.rounding import Rounding
from shoal.verify.techniques.swapping import Swapping
from shoal.verify.techniques.token import Token
from shoal.verify.techniques.tokens import Hash, Tokens

_READERS: Mapping[str, Callable[[str, Mapping[str, Any], str], Declared]] = {
    Coding.name: Coding.read,
    Hash.name: Hash.read,
    Noise.name: Noise.read,
    Permutation.name: Permutation.read,
    Pseudonym.name: Pseudonym.read,
    Rounding.name: Rounding.read,
    Swapping.name: Swapping.read,
    Token.name: Token.read,
}


def read_techniques(raw: object, attributes: Sequence[Attribute]) -> dict[str, Declared]:
    """Return what is declared of every changed column, or raise a ManifestError."""
    by_name = {attribute.name: attribute for attribute in attributes}
    found = {}
    for column, item in mapping(raw, "techniques").items():
        where = f"techniques.{column}"
        entry = mapping(item, where)
        if column not in by_name:
            raise ManifestError(f"{where} is no attribute of the release")
        read = _READERS.get(text_of(entry.get("technique"), f"{where}.technique"))
        if read is None:
            raise ManifestError(f"{where}.technique is none that this verifier knows")
        found[column] = read(column, entry, where)
        _check_role(found[column], by_name[column], where)
    return found


def _check_role(declared: Declared, attribute: Attribute, where: str) -> None:
    if attribute.role not in declared.roles:
        raise ManifestError(f"{where} is a technique that no {attribute.role} attribute can have")
    persons = isinstance(declared, Tokens) and declared.of_identifier
    if persons and (attribute.role, attribute.kind) != ("insensitive", "category"):
        raise ManifestError(f"{where} stands for an identifier, and yet is not an insensitive category")
