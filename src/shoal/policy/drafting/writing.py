"""Writing a policy for people: YAML with the reason for every line and the questions left open."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./%-]*")
_MEANS_SOMETHING = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


def comment(text: str, indent: str, first: str = "") -> list[str]:
    """Return a comment, as many lines as it needs."""
    return textwrap.wrap(
        f"{first}{text}",
        width=WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def questions(asked: Iterable[str], indent: str) -> list[str]:
    """Return a comment for each question."""
    return [line for question in asked for line in comment(question, indent, first="QUESTION: ")]


def scalar(value: Any) -> str:
    """Write one value so that YAML reads back the same.

    >>> scalar("age"), scalar("no"), scalar("12"), scalar(0.00001), scalar("a: b")
    ('age', '"no"', '"12"', '0.00001', '"a: b"')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else f"{plain}.0"
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text.lower() not in _MEANS_SOMETHING else quoted(text)


def quoted(text: str) -> str:
    """Write a text in double quotes, with everything escaped that does not print."""
    shown = (
        f"\\{character}" if character in '"\\' else character if character.isprintable() else f"\\U{ord(character):08x}"
        for character in text
    )
    return f'"{"".join(shown)}"'


def flow(value: Any) -> str:
    """Write a mapping, a list or a value on one line.

    >>> flow({"role": "quasi", "widths": [5, 10]})
    '{role: quasi, widths: [5, 10]}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)
