"""Changing the role of a column: the policy keeps what still makes sense and gets what the role needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.policy.drafting import ask_diversity
from shoal.policy.guessing import guess_quasi_taxonomy
from shoal.policy.policy import Role
from shoal.policy.profiling import ColumnProfile

PutAway = dict[str, dict[str, Any]]  # by column: the taxonomy and the models that a role had no use for


def with_role(
    document: Mapping[str, Any], column: ColumnProfile, role: Role, put_away: PutAway
) -> tuple[dict[str, Any], str]:
    """Return the policy with another role for one column, and what else was changed for that, in words.

    A quasi attribute gets the taxonomy that a draft would give it, a sensitive one the guarantee; guarantees about a
    column that is no longer sensitive cannot be kept. What goes is *put away* and comes back with the role.
    """
    attributes = _mapping(document.get("attributes"))
    entry = _mapping(attributes.get(column.name))
    own = put_away.setdefault(column.name, {})
    if "taxonomy" in entry:
        own["taxonomy"] = entry["taxonomy"]
    kept = {key: value for key, value in entry.items() if key not in ("role", "taxonomy", "items")}
    changed: dict[str, Any] = {"role": role}
    if role == "quasi" or (role == "sensitive" and "taxonomy" in entry):
        taxonomy = own.get("taxonomy") or _guessed_taxonomy(column)
        changed |= {} if taxonomy is None else {"taxonomy": taxonomy}
    attributes[column.name] = {**changed, **kept}
    privacy, said = _privacy(document.get("privacy"), column, role, own)
    result = {**document, "attributes": attributes}
    if privacy is not None:
        result["privacy"] = privacy
    return result, said


def _guessed_taxonomy(column: ColumnProfile) -> dict[str, Any] | None:
    guessed = guess_quasi_taxonomy(column)
    return None if guessed is None or guessed.taxonomy is None else dict(guessed.taxonomy)


def _privacy(given: Any, column: ColumnProfile, role: Role, put_away: dict[str, Any]) -> tuple[list[Any] | None, str]:
    """Return the models with those that the role needs, or None if they stay as they are."""
    if not isinstance(given, list):
        return None, ""
    own = [model for model in given if column.name in _attributes_of(model)]
    if role != "sensitive" and own:
        put_away["models"] = own
        return [model for model in given if model not in own], f"{_names(own)} about {column.name} was removed"
    if role == "sensitive" and not own:
        guessed = ask_diversity(column).model
        added = put_away.pop("models", None) or ([] if guessed is None else [dict(guessed)])
        if added:
            return [*given, *added], f"{_names(added)} about {column.name} was added"
    return None, ""


def _names(models: list[Any]) -> str:
    return ", ".join(str(next(iter(model))) for model in models)


def _attributes_of(model: Any) -> tuple[str, ...]:
    """Return the attributes that a model of a policy names."""
    if not isinstance(model, Mapping) or len(model) != 1:
        return ()
    named = _mapping(next(iter(model.values()))).get("attribute")
    if isinstance(named, str):
        return (named,)
    return tuple(map(str, named)) if isinstance(named, list) else ()


def with_description(document: Mapping[str, Any], name: str, description: str) -> dict[str, Any]:
    """Return the policy with another description of a column; an empty one goes.

    >>> with_description({"attributes": {"age": {"role": "quasi"}}}, "age", " in years ")
    {'attributes': {'age': {'role': 'quasi', 'description': 'in years'}}}
    """
    attributes = _mapping(document.get("attributes"))
    entry = _mapping(attributes.get(name))
    entry.pop("description", None)
    if text := " ".join(description.split()):
        entry["description"] = text
    attributes[name] = entry
    return {**document, "attributes": attributes}


def role_of(document: Mapping[str, Any], name: str) -> str:
    """Return the role that a policy gives a column; empty if none."""
    return str(_mapping(_mapping(document.get("attributes")).get(name)).get("role", ""))


def description_of(document: Mapping[str, Any], name: str) -> str:
    """Return how a policy describes a column; empty if it does not."""
    return str(_mapping(_mapping(document.get("attributes")).get(name)).get("description") or "")


def _mapping(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {}
