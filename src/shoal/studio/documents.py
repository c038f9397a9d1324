"""A policy as a document that people edit: written as YAML, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.core.errors import PolicyError, ShoalError
from shoal.core.yaml_lines import load_with_lines
from shoal.policy.drafting import WIDTH, flow, scalar
from shoal.policy.reading import PolicyReader

NAME = "policy.yaml"
_INDENT = 2
_LONGEST_NAME = 200  # bytes; systems take 255
_PROBLEM = re.compile(rf"{re.escape(NAME)}, (?:line (\d+)(?:, |: ))?(.*)", re.DOTALL)
_PATHS = frozenset({"file", "path", "population", "key", "key_file"})  # parameters that name files


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps a policy from being used, and on which line of its text."""

    line: int | None
    message: str


def written(document: Mapping[str, Any]) -> str:
    """Write a policy as YAML: one line for what is short, blocks for what is long; reading it gives it back.

    >>> print(written({"attributes": {"age": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 5}}]}), end="")
    attributes:
      age: {role: quasi}
    <BLANKLINE>
    privacy:
      - k-anonymity: {k: 5}
    """
    parts: list[str] = []
    for key, value in document.items():
        long = isinstance(value, Mapping | list) and bool(value) and key in ("attributes", "privacy")
        text = "\n".join(_lines(str(key), value, 0, open_at_least=1 if long else 0))
        if parts and (long or parts[-1].count("\n")):
            parts.append("")
        parts.append(text)
    return "\n".join(parts) + "\n" if parts else "{}\n"


def _lines(key: str, value: Any, depth: int, open_at_least: int) -> list[str]:
    """Return the lines of one entry; values of *open_at_least* levels are blocks however short they are."""
    head = " " * (_INDENT * depth) + f"{scalar(key)}:"
    if not isinstance(value, Mapping | list | tuple) or not value:
        return [f"{head} {_inline(value)}"]
    short = f"{head} {_inline(value)}"
    if not open_at_least and len(short) <= WIDTH:
        return [short]
    deeper = max(open_at_least - 1, 0)
    if isinstance(value, Mapping):
        return [head, *(line for k, v in value.items() for line in _lines(str(k), v, depth + 1, deeper))]
    if all(not isinstance(item, Mapping | list | tuple) for item in value):
        return [head, *(" " * (_INDENT * (depth + 1)) + f"- {_inline(item)}" for item in value)]
    return [head, *(line for item in value for line in _item(item, depth + 1, deeper))]


def _item(item: Any, depth: int, open_at_least: int) -> list[str]:
    dash = " " * (_INDENT * depth) + "- "
    if isinstance(item, Mapping) and item:
        inner = [line for k, v in item.items() for line in _lines(str(k), v, depth + 1, open_at_least)]
        return [dash + inner[0].lstrip(" "), *inner[1:]]
    return [dash + _inline(item)]


def _inline(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return flow(value)


def read(text: str) -> dict[str, Any]:
    """Return the document that a text writes; raise a PolicyError with the line if it is none."""
    document, _ = load_with_lines(text, NAME)
    if not isinstance(document, Mapping):
        raise PolicyError(f"{NAME}, line 1: a policy is a mapping with the keys {', '.join(PolicyReader.KEYS)}")
    return dict(document)


def problems(text: str, folder: Path, columns: Sequence[str]) -> tuple[Problem, ...]:
    """Return what is wrong with a policy for a table with these columns; files it names lie in *folder* alone."""
    found: list[Problem] = []
    try:
        document, lines = load_with_lines(text, NAME)
        found += [
            Problem(lines.get(place), f"{place[-1]}: only files that were added here can be named, without a folder")
            for place in outside_names(document)
        ]
        if found:
            return tuple(found)
        policy = PolicyReader(NAME, lines, folder).policy(document)
        found += [
            Problem(lines.get(("attributes", name)), f"the table has no column {name!r}; remove it here")
            for name in policy.attributes
            if name not in columns
        ]
        absent = [name for name in columns if name not in policy.attributes]
        found += [Problem(lines.get(("attributes",)), f"column {name!r} of the table has no role") for name in absent]
    except ShoalError as error:
        found += [_problem(line) for line in str(error).split(f"\n{NAME}, ")]
    return tuple(found)


def _problem(message: str) -> Problem:
    matched = _PROBLEM.fullmatch(message if message.startswith(f"{NAME}, ") else f"{NAME}, {message}")
    if matched is None:
        return Problem(None, message)
    return Problem(None if matched[1] is None else int(matched[1]), matched[2])


def outside_names(document: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the places in a document that name a file by more than a plain name.

    >>> outside_names({"privacy": [{"k-map": {"k": 5, "population": "../census.csv"}}]})
    [('privacy', 0, 'k-map', 'population')]
    """
    if isinstance(document, Mapping):
        below = [found for key, value in document.items() for found in outside_names(value, (*place, str(key)))]
    elif isinstance(document, list | tuple):
        below = [found for index, value in enumerate(document) for found in outside_names(value, (*place, index))]
    else:
        below = []
    named = bool(place) and place[-1] in _PATHS and isinstance(document, str) and not is_plain(document)
    return [place, *below] if named else below


def is_plain(name: str) -> bool:
    """Whether a name is that of a file in the folder itself: no separators, no leading dot, nothing odd.

    >>> is_plain("towns.csv"), is_plain("../towns.csv"), is_plain(".hidden"), is_plain("a\\\\b")
    (True, False, False, False)
    """
    return (
        0 < len(name) <= 100
        and name.isprintable()
        and len(name.encode()) <= _LONGEST_NAME
        and not name.startswith((".", " ", "-"))
        and not any(mark in name for mark in '/\\:*?"<>|')
    )
