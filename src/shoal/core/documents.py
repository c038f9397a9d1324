"""YAML and JSON that others wrote: read with the line of each key, or so strictly that everybody reads the same."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from shoal.core.errors import PolicyError

Place = tuple[str | int, ...]

_MOST_REPEATED = 1 << 22  # characters that aliases may add to a document; few lines of them can stand for terabytes
_LONGEST_NUMBER = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


class Parameters(BaseModel):
    """What a policy says of one thing: it never changes, and a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class _Loader(yaml.SafeLoader):
    """Safe loading that leaves dates as text, as the policy wrote them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Lines(dict[Place, int]):
    """The line of every key and item of a document."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[int] = set()
        self._repeated = 0

    def count(self, node: yaml.Node) -> None:
        """Refuse a document whose aliases repeat too much, numbers without end, and texts that no file can hold."""
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
    """Note the line of every key and item; refuse a key given twice; read keys as the text they are written as.

    Without that a column ``no`` would become False, and ``010`` the number 8.
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
    """Parse one YAML or JSON document; return it with the line of every key and item.

    >>> load_with_lines("a: 1\\nb: [x, y]", "example")[1][("b", 1)]
    2
    """
    try:
        # Outside of texts, where JSON allows no tab, tabs are blanks to JSON but not to YAML.
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
    except (ValueError, LookupError, AttributeError, OverflowError):  # of its constructors, such as !!int x
        raise PolicyError(f"{name}: not valid YAML: a value is not of the kind that it is written as") from None


def read_text(path: Path) -> str:
    """Return the text of a small file, or raise an error that names it."""
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


_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half a character, or the first half of a whole one


class AmbiguousJsonError(ValueError):
    """It can be read in several ways; the message says why, without a value."""


def read_json(content: bytes | str) -> Any:
    """Return what JSON in UTF-8 says; a key that comes twice, half a character, NaN or an infinity is a ValueError.

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
        json.dumps(found, ensure_ascii=False).encode()  # of half a character it raises a ValueError
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
