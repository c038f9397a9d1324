"""Trees as nested mappings (Python, YAML, JSON) and as the hierarchy files of ARX: reading and writing.

In nested mappings keys are nodes; under a key stand its children (a mapping, or a list of leaves), or nothing
(``{}`` or null) if it is a leaf itself. Everything is taken as text exactly as it is written. The leaf for missing
values is not written: whether there is one is for the policy to say.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.construct import from_parents
from shoal.taxonomies.tree import Taxonomy

DELIMITERS = (";", "\t", ",")  # in order of preference
_SAMPLE = 200
# A label and how often it was already met right above itself: ARX files repeat a label to fill columns.
Key: TypeAlias = tuple[str, int]
Ancestors: TypeAlias = tuple[Key, ...]

# What is under a node: (text, what is under that, line or None) for each child; None if the node is a leaf.
Children: TypeAlias = Iterator[tuple[str, Any, int | None]]
Reader: TypeAlias = Callable[[str, Any], "Children | None"]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys as they came, repeated ones included."""


def from_nested(tree: Mapping[Any, Any], *, root: str | None = None, name: str = "taxonomy") -> Taxonomy:
    """Build a tree from nested mappings and lists; *root* is put above them, else they must have one.

    >>> from_nested({"low": ["a", "b"], "high": ["c"]}, root="*").labels
    ('a', 'b', 'c', 'low', 'high', '*')
    """
    return _build(tree, lambda label, value: _of_objects(label, value, name), root, name)


def from_yaml_text(text: str, *, name: str) -> Taxonomy:
    """Build a tree from YAML; messages name its lines."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise TaxonomyError(
            f"{name}{where}: this is no YAML: {getattr(error, 'problem', None) or 'unreadable'}"
        ) from None
    return _build(document, lambda label, value: _of_yaml(label, value, name), None, name)


def from_json_text(text: str, *, name: str) -> Taxonomy:
    """Build a tree from JSON."""
    try:
        document = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TaxonomyError(f"{name}{line}: this is no JSON") from None
    return _build(document, lambda label, value: _of_objects(label, value, name), None, name)


def plain_text(value: object) -> str:
    """Return a scalar of a policy as the text that a column would have.

    >>> plain_text(17), plain_text(True), plain_text("x")
    ('17', 'true', 'x')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, str | int | datetime.date):
        return str(value)
    raise TaxonomyError(f"a taxonomy's values are texts, numbers or dates, not {type(value).__name__}")


def _build(document: Any, read: Reader, root: str | None, name: str) -> Taxonomy:
    labels: list[str] = []
    parents: list[int] = []
    lines: list[int | None] = []
    met: dict[int, int] = {}  # a branch, by identity -> its node; met again through an alias it is no tree
    if root is not None:
        labels, parents, lines = [root], [-1], [None]
    top = read(name, document)
    if top is None:
        raise TaxonomyError(f"{name} is empty; give a mapping from each group to its values")
    waiting = [(len(labels) - 1, *child) for child in top][::-1]
    while waiting:
        parent, label, value, line = waiting.pop()
        node = len(labels)
        labels.append(label)
        parents.append(parent)
        lines.append(line)
        below = read(label, value)
        if below is None:
            continue
        if id(value) in met:
            raise TaxonomyError(_explain_alias(labels, parents, node, met[id(value)], name))
        met[id(value)] = node
        waiting.extend([(node, *child) for child in below][::-1])
    known = [line or 0 for line in lines]
    return from_parents(labels, parents, name=name, lines=known if all(known) else None)


def _explain_alias(labels: list[str], parents: list[int], node: int, first: int, name: str) -> str:
    above = node
    while above not in (first, -1):
        above = parents[above]
    if above == first:
        return f"{name} has a cycle: {labels[first]!r} is its own ancestor"
    return f"{name}: what is under {labels[first]!r} is under {labels[node]!r} too; give each value one place"


def _of_objects(label: str, value: Any, name: str) -> Children | None:
    if value is None or (isinstance(value, Mapping | _Pairs) and not value):
        return None
    if isinstance(value, _Pairs):
        return ((key, below, None) for key, below in value)
    if isinstance(value, Mapping):
        return ((plain_text(key), below, None) for key, below in value.items())
    if isinstance(value, list | tuple) and value:
        return (_list_item(item) for item in value)
    raise TaxonomyError(_neither(label, name, empty=isinstance(value, list | tuple)))


def _list_item(item: Any) -> tuple[str, Any, None]:
    if isinstance(item, _Pairs) and len(item) == 1:
        return (*item[0], None)
    if isinstance(item, Mapping) and len(item) == 1:
        key, below = next(iter(item.items()))
        return plain_text(key), below, None
    return plain_text(item), None, None


def _of_yaml(label: str, node: yaml.Node | None, name: str) -> Children | None:
    if node is None or (isinstance(node, yaml.MappingNode) and not node.value):
        return None
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
        return None
    if isinstance(node, yaml.MappingNode):
        return (_yaml_child(key, below, name) for key, below in node.value)
    if isinstance(node, yaml.SequenceNode) and node.value:
        return (_yaml_item(item, name) for item in node.value)
    where = f"{name}, line {node.start_mark.line + 1}"
    raise TaxonomyError(_neither(label, where, empty=isinstance(node, yaml.SequenceNode)))


def _yaml_child(key: yaml.Node, below: yaml.Node | None, name: str) -> tuple[str, Any, int]:
    line: int = key.start_mark.line + 1
    if not isinstance(key, yaml.ScalarNode):
        raise TaxonomyError(f"{name}, line {line}: a value must be one text, not a list or mapping")
    return key.value, below, line


def _yaml_item(item: yaml.Node, name: str) -> tuple[str, Any, int]:
    if isinstance(item, yaml.MappingNode) and len(item.value) == 1:
        key, below = item.value[0]
        return _yaml_child(key, below, name)
    return _yaml_child(item, None, name)


def _neither(label: str, where: str, *, empty: bool) -> str:
    if empty:
        return f"{where}: the group {label!r} has no values; list some or remove it"
    return f"{where}: under {label!r} stands one value; write a list: [{label}, ...] or {{}} for a leaf"


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
    lines = _merge_repetitions(_lines(text, name))
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
    return _number_nodes(lines, above, first_line, name)


def _number_nodes(lines: list[_Line], above: dict[Key, Key | None], first_line: dict[Key, int], name: str) -> Taxonomy:
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


def _merge_repetitions(lines: list[_Line]) -> list[_Line]:
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
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        return str(min(error.args[1]))
    return None


def to_arx_csv(taxonomy: Taxonomy, path: Path) -> None:
    """Write one line per value, ``leaf;parent;...;*``, all equally long: a shallow leaf is repeated."""
    height = taxonomy.height
    above = taxonomy.parent.tolist()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\n")
        for leaf in _present(taxonomy):
            line = [taxonomy.labels[leaf]]
            node = leaf
            while (node := above[node]) >= 0:
                line.append(taxonomy.labels[node])
            writer.writerow([line[0]] * (height + 1 - len(line)) + line)


def to_nested_yaml(taxonomy: Taxonomy, path: Path) -> None:
    """Write the tree as nested mappings, groups of leaves as lists."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(_tree(taxonomy, lists=True), file, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)


def to_nested(taxonomy: Taxonomy, spelled: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Return the tree as nested mappings, leaves empty ones; some leaves may be *spelled* unlike their labels.

    >>> from shoal.taxonomies.files import from_nested
    >>> to_nested(from_nested({"any": {"x": ["a", "b"], "c": {}}}))
    {'any': {'x': {'a': {}, 'b': {}}, 'c': {}}}
    """
    return _tree(taxonomy, lists=False, spelled=spelled)


def _present(taxonomy: Taxonomy) -> range:
    return range(taxonomy.n_leaves if taxonomy.missing is None else taxonomy.missing)


def _tree(taxonomy: Taxonomy, *, lists: bool, spelled: Mapping[int, str] | None = None) -> dict[str, Any]:
    names = [*taxonomy.labels]
    for leaf, name in (spelled or {}).items():
        names[leaf] = name
    made: list[Any] = [{} for _ in range(taxonomy.n_nodes)]
    for node in range(taxonomy.n_leaves, taxonomy.n_nodes):  # children come before their parents
        children = [child for child in taxonomy.children(node) if child != taxonomy.missing]
        if lists and all(taxonomy.is_leaf(child) for child in children):
            made[node] = [names[child] for child in children]
        else:
            made[node] = {names[child]: made[child] for child in children}
    return {names[taxonomy.root]: made[taxonomy.root]}
