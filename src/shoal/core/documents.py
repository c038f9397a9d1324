"""YAML with the line of each key or with comments, and JSON that has only one interpretation."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from shoal.core.errors import PolicyError

Place = tuple[str | int, ...]

_MOST_REPEATED = 1 << 22  # characters that aliases may add: a few lines of aliases can expand to terabytes
_LONGEST_NUMBER = 100
WIDTH = 110  # of written YAML
_SURROGATE = re.compile("[\ud800-\udfff]")


class Parameters(BaseModel):
    """Parameters in a policy: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class _Loader(yaml.SafeLoader):
    """A safe loader that reads dates as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Lines(dict[Place, int]):
    def __init__(self) -> None:
        super().__init__()
        self._seen: set[int] = set()
        self._repeated = 0

    def count(self, node: yaml.Node) -> None:
        """Raise for aliases that expand too far, huge numbers, and halves of characters."""
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        line = node.start_mark.line + 1
        if id(node) in self._seen:
            self._repeated += 4 + len(text)
        self._seen.add(id(node))
        if self._repeated > _MOST_REPEATED:
            raise PolicyError(f"line {line}: aliases (*) repeat too much; write less by them")
        if len(text) > _LONGEST_NUMBER and node.tag == "tag:yaml.org,2002:int":
            raise PolicyError(f"line {line}: a number has more than {_LONGEST_NUMBER} digits")
        if not text.isascii() and _SURROGATE.search(text):
            raise PolicyError(f"line {line}: half of a character, such as \\ud800; write the character itself")


def _lines(node: yaml.Node, place: Place, lines: _Lines) -> None:
    """Add the line of every key and item to *lines*, and make keys texts; raise for a repeated key.

    As YAML scalars, a column ``no`` would be False, and ``010`` the number 8.
    """
    lines.count(node)
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                key.tag = "tag:yaml.org,2002:str"
                lines.count(key)
            inner = (*place, str(key.value))
            if inner in lines:
                line = key.start_mark.line + 1
                raise PolicyError(f"line {line}: key {key.value!r} is given twice; the first is on line {lines[inner]}")
            _lines(value, inner, lines)
            lines[inner] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _lines(value, (*place, index), lines)


def load_with_lines(text: str, name: str) -> tuple[Any, dict[Place, int]]:
    """Parse a YAML or JSON document; return it and the line of every key and item.

    >>> load_with_lines("a: 1\\nb: [x, y]", "example")[1][("b", 1)]
    2
    """
    try:
        # JSON allows tabs between tokens but not in texts; YAML does not allow them as indentation.
        loader = _Loader(text.replace("\t", " ") if name.endswith(".json") else text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        lines = _Lines()
        _lines(node, (), lines)
        return loader.construct_document(node), dict(lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PolicyError(f"{name}, line {line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise PolicyError(f"{name}: not valid YAML: it holds characters that YAML does not allow") from None
    except RecursionError:
        raise PolicyError(f"{name}: not a valid policy: it contains itself, or is nested too deeply") from None
    except PolicyError as error:
        raise PolicyError(f"{name}, {error}") from None
    except (ValueError, LookupError, AttributeError, OverflowError):  # raised by constructors, e.g. for !!int x
        raise PolicyError(f"{name}: not valid YAML: a value does not have the type of its tag") from None


def read_text(path: Path) -> str:
    """Return the text of a file; errors name it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PolicyError(f"no such file: {path}") from None
    except IsADirectoryError:
        raise PolicyError(f"{path} is a folder, not a file") from None
    except UnicodeDecodeError:
        raise PolicyError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}") from None


_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a character, or the first half of a whole one


class AmbiguousJsonError(ValueError):
    """A document with several interpretations; the message gives the reason without a value."""


def read_json(content: bytes | str) -> Any:
    """Parse JSON in UTF-8; repeated keys, halves of characters, NaN and infinities raise a ValueError.

    >>> read_json('{"k": 5, "k": 1}')
    Traceback (most recent call last):
    shoal.core.documents.AmbiguousJsonError: an object has the same key twice
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite)
    except RecursionError:
        raise AmbiguousJsonError("it is nested too deeply") from None
    if _ESCAPED_SURROGATE.search(text):
        json.dumps(found, ensure_ascii=False).encode()  # half of a character raises a ValueError
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise AmbiguousJsonError("an object has the same key twice")
    return found


def _finite(text: str) -> float:
    found = float(text)
    return found if math.isfinite(found) else _not_finite(text)


def _not_finite(_: str) -> Any:
    raise AmbiguousJsonError("it has a number that is not finite")


def comment(text: str, indent: str, first: str = "") -> list[str]:
    """Return the lines of a comment."""
    return textwrap.wrap(
        f"{first}{text}",
        width=WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def questions(asked: Iterable[str], indent: str) -> list[str]:
    return [line for question in asked for line in comment(question, indent, first="QUESTION: ")]


class Dumper(yaml.SafeDumper):
    """Writes texts that need escapes in double quotes, on one line, and repeats equal values instead of naming them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"'
    ),
)


def flow(value: Any) -> str:
    """Write a value as YAML on one line.

    >>> flow({"role": "quasi", "widths": [5, 10]}), flow("no"), flow("a: b")
    ('{role: quasi, widths: [5, 10]}', "'no'", "'a: b'")
    """
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=True, width=math.inf, sort_keys=False, allow_unicode=True)
    return text.removesuffix("...\n").rstrip("\n")
