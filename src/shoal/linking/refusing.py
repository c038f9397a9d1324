"""Releases that linking cannot judge: it reasons about the original values that published ones stand for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from shoal.core.errors import InputError
from shoal.release.forms.base import read_form


def unlinkable(manifest: Mapping[str, Any], names: Collection[str]) -> str | None:
    """Say why a release cannot be linked by these attributes; None if it can."""
    reason = read_form(manifest).unlinkable
    if reason is not None:
        return reason
    changed = [_changed(name, technique) for name, technique, _ in _techniques(manifest) if name in names]
    return changed[0] if changed else None


def not_for_ledgers(manifest: Mapping[str, Any]) -> str | None:
    """Say why a release cannot be entered into a ledger, which links it by attributes that nobody knows yet."""
    changed = [_changed(name, technique) for name, technique, _ in _techniques(manifest)]
    if changed:
        return changed[0]
    reason = read_form(manifest).not_for_ledgers
    if reason is not None:
        return reason
    if "sample" in manifest:
        return "it is a sample, and nobody else can tell who is in it"
    return unlinkable(manifest, ())


def refuse_common_tokens(releases: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise if two releases, each a name and a manifest, have tokens that are the same for the same person.

    The manifest does not tell the key, so that pseudonyms of the same domain count as being of one.
    """
    for (first, one), (second, other) in combinations(releases, 2):
        known = dict(_lasting(one))
        for column, tokens in _lasting(other):
            for own, same in known.items():
                if same == tokens:
                    raise InputError(
                        f"{first} and {second} have tokens that are the same for the same value (columns {own!r} and "
                        f"{column!r}): whoever has both puts a person's rows together, and no class hides them"
                    )


def _lasting(manifest: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the columns of tokens that other releases may have as well, and what makes them the same."""
    for name, technique, entry in _techniques(manifest):
        if technique == "pseudonym":
            yield name, (technique, str(entry.get("domain")))
        elif technique == "hash" and entry.get("salt") != "random":
            yield name, (technique, "")


def _changed(name: str, technique: str) -> str:
    return f"its column {name!r} was changed by {technique}, and linking compares original values"


def _techniques(manifest: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the changed columns, by which technique, and how."""
    try:
        return [(name, str(entry["technique"]), entry) for name, entry in manifest.get("techniques", {}).items()]
    except (TypeError, KeyError, AttributeError):
        raise InputError("its manifest does not explain its techniques; run `shoal verify` on it") from None
