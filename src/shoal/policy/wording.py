"""Mistakes in a policy in our words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shoal.errors import did_you_mean
from shoal.yaml_lines import Place


def sentence(problem: dict[str, Any], known: list[str]) -> str:
    """Say one pydantic error in our words."""
    context, received = problem.get("ctx", {}), problem.get("input")
    got = f"; received {received!r}" if isinstance(received, str | int | float | bool) else ""
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            name = str(problem["loc"][-1])
            return f"unknown key {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}{got}"
        case "greater_than":
            return f"must be more than {context['gt']}{got}"
        case "less_than_equal":
            return f"must be at most {context['le']}{got}"
        case "less_than":
            return f"must be less than {context['lt']}{got}"
        case "literal_error":
            return f"must be one of {context['expected']}{did_you_mean(str(received), _choices(context))}{got}"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"must be a whole number{got}"
        case "float_type" | "float_parsing":
            return f"must be a number{got}"
        case "value_error":
            return str(context.get("error", problem["msg"]))
        case _:
            return f"{str(problem['msg'])[:1].lower()}{str(problem['msg'])[1:]}{got}"


def booleans_as_numbers(given: Any, valid: Any) -> Iterator[Place]:
    """Yield where a boolean was given and something else was understood: pydantic takes true for 1.

    >>> list(booleans_as_numbers({"k": True, "widths": [5, False]}, {"k": 1, "widths": (5, 0)}))
    [('k',), ('widths', 1)]
    >>> list(booleans_as_numbers({"random": True}, {"random": True}))
    []
    """
    if isinstance(given, bool):
        if not isinstance(valid, bool):
            yield ()
        return
    inside: Iterable[tuple[str | int, Any, Any]] = ()
    if isinstance(given, Mapping) and isinstance(valid, Mapping):
        inside = [(str(key), one, valid[str(key)]) for key, one in given.items() if str(key) in valid]
    elif isinstance(given, list | tuple) and isinstance(valid, list | tuple):
        inside = [(place, one, other) for place, (one, other) in enumerate(zip(given, valid, strict=False))]
    for place, one, other in inside:
        yield from ((place, *rest) for rest in booleans_as_numbers(one, other))


def _choices(context: Mapping[str, Any]) -> list[str]:
    return str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
