"""Reading hierarchy files as ARX writes them: one line per value, then its ancestors up to the root."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.construct import from_parents
from shoal.taxonomies.tree import Taxonomy

DELIMITERS = (";", "\t", ",")  # in order of preference
_SAMPLE = 200

# A label and how often it was already met right above itself: ARX files repeat a label to fill columns.
Key: TypeAlias = tuple[str, int]
Ancestors: TypeAlias = tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    leaf: str
    above: Ancestors  # nearest first; many lines share one


def from_arx_text(text: str, *, name: str) -> Taxonomy:
    """Build a tree from lines ``leaf;parent;...;*``.

    Lines may be of unequal length: empty cells are skipped, and a leaf that is repeated as its own parent
    counts once. Any other label that is repeated stays a level of its own where it means the same values on
    both levels, so that equally long lines keep their columns as levels.

    >>> from_arx_text("a;x;*\\nb;x;*\\nc;*", name="example").labels
    ('a', 'b', 'c', 'x', '*')
    """
    lines = _merged(_lines(text, name))
    if not lines:
        raise TaxonomyError(f"{name} is empty; write one line per value: leaf;parent;...;*")
    place: dict[str, int] = {}  # leaf -> line
    for line in lines:
        if place.setdefault(line.leaf, line.number) != line.number:
            raise TaxonomyError(f"{name}: the leaf {line.leaf!r} is on lines {place[line.leaf]} and {line.number}")
    first_line: dict[Key, int] = {}
    above: dict[Key, Key | None] = {}
    kinds: dict[Ancestors, _Line] = {}  # the first line of each kind
    for line in lines:
        kinds.setdefault(line.above, line)
    for line in kinds.values():
        for key, parent in zip(line.above, [*line.above[1:], None], strict=True):
            number = first_line.setdefault(key, line.number)
            if above.setdefault(key, parent) != parent:
                raise TaxonomyError(_two_places(lines, key, (above[key], number), (parent, line.number), name))
    for label, _ in above:
        if label in place:
            cycle = _cycle_member(lines)
            wrong = f"{label!r} is a value (line {place[label]}) and a group of other values; rename the group"
            raise TaxonomyError(f"{name}: {wrong}" if cycle is None else _cycle(cycle, name))
    return _numbered(lines, above, first_line, name)


def _numbered(lines: list[_Line], above: dict[Key, Key | None], first_line: dict[Key, int], name: str) -> Taxonomy:
    """Number groups and leaves by the first line they are on, so that children keep the file's order."""
    groups = {key: node for node, key in enumerate(above)}
    order = sorted([(first_line[key], 1, *key) for key in groups] + [(line.number, 0, line.leaf, -1) for line in lines])
    number = {(label, run): node for node, (_, _, label, run) in enumerate(order)}
    parent_of_leaf = {line.leaf: line.above[0] for line in lines}
    parents = []
    for _, _, label, run in order:
        parent = parent_of_leaf[label] if run < 0 else above[label, run]
        parents.append(-1 if parent is None else number[parent])
    return from_parents([row[2] for row in order], parents, name=name, lines=[row[0] for row in order])


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        return [(reader.line_num, cells) for cells in reader if "".join(cells).strip()]
    except csv.Error as error:
        raise TaxonomyError(f"{name}, line {reader.line_num}: {error}") from None


def _delimiter(text: str) -> str:
    """Return the delimiter that splits most of the first lines."""
    sample = text.split("\n", _SAMPLE)[:_SAMPLE]
    return max(DELIMITERS, key=lambda delimiter: sum(delimiter in line for line in sample))


def _lines(text: str, name: str) -> list[_Line]:
    known: dict[tuple[str, ...], Ancestors] = {}
    lines = []
    for number, cells in _rows(text, name):
        leaf = cells[0]
        if not leaf.strip():
            raise TaxonomyError(f"{name}, line {number}: the leaf is empty; missing values need no line")
        path = [cell for cell in cells if cell.strip()]
        same = next((place for place, label in enumerate(path) if label != leaf), len(path))
        labels = tuple(path[same:])
        if not labels:
            raise TaxonomyError(
                f"{name}, line {number}: {leaf!r} has no parent; end each line with the root, such as *"
            )
        if labels not in known:
            known[labels] = _keys(labels)
        lines.append(_Line(number, leaf, known[labels]))
    return lines


def _keys(labels: tuple[str, ...]) -> Ancestors:
    keys: list[Key] = []
    for label in reversed(labels):
        keys.append((label, keys[-1][1] + 1 if keys and keys[-1][0] == label else 0))
    return tuple(reversed(keys))


def _merged(lines: list[_Line]) -> list[_Line]:
    """Drop repetitions that mean fewer values than the label they repeat: they only fill a column."""
    count: Counter[Key] = Counter()
    for above, times in Counter(line.above for line in lines).items():
        for key in above:
            count[key] += times
    filling = {key for key in count if key[1] and count[key] < count[key[0], 0]}
    if not filling:
        return lines
    return [_Line(line.number, line.leaf, tuple(key for key in line.above if key not in filling)) for line in lines]


def _two_places(
    lines: list[_Line], key: Key, first: tuple[Key | None, int], second: tuple[Key | None, int], name: str
) -> str:
    cycle = _cycle_member(lines)
    if cycle is not None:
        return _cycle(cycle, name)
    (parent, line), (other, other_line) = first, second
    if parent is None or other is None:
        where = line if parent is None else other_line
        return f"{name}: {key[0]!r} is the root of line {where} only; end every line with the same root"
    both = f"{parent[0]!r} (line {line}) and {other[0]!r} (line {other_line})"
    return f"{name}: {key[0]!r} has two parents, {both}; give it one"


def _cycle(member: str, name: str) -> str:
    return f"{name} has a cycle: {member!r} is its own ancestor"


def _cycle_member(lines: list[_Line]) -> str | None:
    above: dict[str, set[str]] = {}
    for line in lines:
        labels = [line.leaf, *(label for label, _ in line.above)]
        for label, parent in pairwise(labels):
            above.setdefault(label, set())
            if parent != label:
                above[label].add(parent)
    # Take away what has nothing above it, again and again: what is left lies on or below a cycle.
    below: dict[str, list[str]] = {}
    for label, parents in above.items():
        for parent in parents:
            below.setdefault(parent, []).append(label)
    waiting = {label: len(parents) for label, parents in above.items()}
    free = [label for label in below if not waiting.get(label)]
    while free:
        for label in below.get(free.pop(), []):
            waiting[label] -= 1
            if not waiting[label]:
                free.append(label)
    left = {label for label, number in waiting.items() if number}
    if not left:
        return None
    node, passed = min(left), set[str]()
    while node not in passed:
        passed.add(node)
        node = min(above[node] & left)
    return node
