"""Mistakes in a policy in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.errors import did_you_mean


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


def _choices(context: Mapping[str, Any]) -> list[str]:
    return str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
