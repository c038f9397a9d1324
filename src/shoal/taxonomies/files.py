"""Reading and writing trees as nested mappings (Python, YAML, JSON) and as ARX hierarchy files.

In nested mappings keys are nodes. The value of a key has its children, as a mapping or a list of leaves; a leaf has the
value ``{}`` or null. Labels are the exact texts. The leaf for missing values is not written, because the policy decides
whether there is one.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.construct import from_parents
from shoal.taxonomies.tree import Taxonomy

DELIMITERS = (";", "\t", ",")  # in order of preference
_SAMPLE = 200
# A label, and its number of repetitions directly above itself: ARX files repeat labels to fill columns.
Key: TypeAlias = tuple[str, int]
Ancestors: TypeAlias = tuple[Key, ...]


class _Pairs(list[tuple[str, Any]]):
    """The items of a JSON object, including repeated keys."""


def from_nested(tree: Any, *, root: str | None = None, name: str = "taxonomy") -> Taxonomy:
    """Build a tree from nested mappings and lists, or YAML nodes; without *root* they must have a single root.

    >>> from_nested({"low": ["a", "b"], "high": ["c"]}, root="*").labels
    ('a', 'b', 'c', 'low', 'high', '*')
    """
    labels, parents, lines = ([], [], []) if root is None else ([root], [-1], [0])
    met: dict[int, int] = {}  # nodes by the identity of branches; a branch that YAML aliases repeat is an error
    top = _children(name, tree, name)
    if top is None:
        raise TaxonomyError(f"{name} is empty; give a mapping from each group to its values")
    waiting = [(len(labels) - 1, *child) for child in reversed(top)]
    while waiting:
        parent, label, line, value = waiting.pop()
        node = len(labels)
        labels.append(label)
        parents.append(parent)
        lines.append(line)
        below = _children(label, value, name)
        if below is None:
            continue
        if id(value) in met:
            raise TaxonomyError(_explain_alias(labels, parents, node, met[id(value)], name))
        met[id(value)] = node
        waiting += [(node, *child) for child in reversed(below)]
    return from_parents(labels, parents, name=name, lines=lines if all(lines) else None)


def from_yaml_text(text: str, *, name: str) -> Taxonomy:
    """Build a tree from YAML; errors name its lines."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "unreadable"
        raise TaxonomyError(f"{name}{where}: this is not valid YAML: {problem}") from None
    return from_nested(document, name=name)


def from_json_text(text: str, *, name: str) -> Taxonomy:
    try:
        document = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TaxonomyError(f"{name}{line}: this is not valid JSON") from None
    return from_nested(document, name=name)


def plain_text(value: object) -> str:
    """Return a scalar of a policy as the text in a column.

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


def _explain_alias(labels: list[str], parents: list[int], node: int, first: int, name: str) -> str:
    above = node
    while above not in (first, -1):
        above = parents[above]
    if above == first:
        return f"{name} has a cycle: {labels[first]!r} is its own ancestor"
    return f"{name}: {labels[first]!r} and {labels[node]!r} have the same children; give each value one place"


def _children(label: str, value: Any, name: str) -> list[tuple[str, int, Any]] | None:
    """Return the label, the line (0: unknown) and the branch of each child of a node; None for a leaf."""
    pairs = _pairs(value)
    null = isinstance(value, yaml.ScalarNode) and value.tag == "tag:yaml.org,2002:null"
    if value is None or null or pairs == []:
        return None
    if pairs is None:
        items = value.value if isinstance(value, yaml.SequenceNode) else value
        where = f"{name}, line {value.start_mark.line + 1}" if isinstance(value, yaml.Node) else name
        if not isinstance(items, list | tuple):
            raise TaxonomyError(f"{where}: {label!r} has one value; write a list: [{label}, ...] or {{}} for a leaf")
        if not items:
            raise TaxonomyError(f"{where}: the group {label!r} has no values; list some or remove it")
        groups = [_pairs(item) or [] for item in items]
        pairs = [group[0] if len(group) == 1 else (item, None) for item, group in zip(items, groups, strict=True)]
    return [(*_label(key, name), below) for key, below in pairs]


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the items of a mapping, whatever reader it comes from; None for other values."""
    if isinstance(value, Mapping):
        return list(value.items())
    return value.value if isinstance(value, yaml.MappingNode) else value if isinstance(value, _Pairs) else None


def _label(key: Any, name: str) -> tuple[str, int]:
    """Return a label and its line, 0 if it is unknown."""
    if not isinstance(key, yaml.Node):
        return plain_text(key), 0
    line = key.start_mark.line + 1
    if not isinstance(key, yaml.ScalarNode):
        raise TaxonomyError(f"{name}, line {line}: a value must be one text, not a list or mapping")
    return key.value, line


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    leaf: str
    above: Ancestors  # nearest first; many lines share one


def from_arx_text(text: str, *, name: str) -> Taxonomy:
    """Build a tree from lines ``leaf;parent;...;*``.

    Lines may differ in length. Empty cells are skipped. A leaf that is repeated as its own parent counts once, unless
    other lines have it as a group. Any other repeated label is a separate level if it has the same values on both
    levels: the columns of equally long lines remain levels.

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
    above: dict[Key, tuple[Key | None, int]] = {}  # group -> its parent, and the first line it is on
    kinds: dict[Ancestors, _Line] = {}  # the first line with these ancestors
    for line in lines:
        kinds.setdefault(line.above, line)
    for line in kinds.values():
        for key, parent in zip(line.above, [*line.above[1:], None], strict=True):
            first = above.setdefault(key, (parent, line.number))
            if first[0] != parent:
                raise TaxonomyError(f"{name}: {_explain_two_places(key, first, (parent, line.number))}")
    # Groups and leaves are numbered by their first line, so children keep the order of the file.
    order = sorted(
        [(number, 1, *key, parent) for key, (parent, number) in above.items()]
        + [(line.number, 0, line.leaf, -1, line.above[0]) for line in lines],
        key=lambda node: node[:4],
    )
    nodes = {(label, run): node for node, (_, _, label, run, _) in enumerate(order)}
    parents = [-1 if node[4] is None else nodes[node[4]] for node in order]
    return from_parents([node[2] for node in order], parents, name=name, lines=[node[0] for node in order])


def _lines(text: str, name: str) -> list[_Line]:
    sample = text.split("\n", _SAMPLE)[:_SAMPLE]
    delimiter = max(DELIMITERS, key=lambda candidate: sum(candidate in line for line in sample))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        rows = [(reader.line_num, cells) for cells in reader if "".join(cells).strip()]
    except csv.Error as error:
        raise TaxonomyError(f"{name}, line {reader.line_num}: {error}") from None
    known: dict[tuple[str, ...], Ancestors] = {}
    groups = {cell for _, cells in rows for cell in cells[1:] if cell != cells[0]}
    lines = []
    for number, cells in rows:
        leaf = cells[0]
        if not leaf.strip():
            raise TaxonomyError(f"{name}, line {number}: the leaf is empty; missing values need no line")
        above = (cell for cell in cells[1:] if cell.strip())
        labels = tuple(above if leaf in groups else dropwhile(leaf.__eq__, above))
        if not labels:
            raise TaxonomyError(
                f"{name}, line {number}: {leaf!r} has no parent; end each line with the root, such as *"
            )
        if labels not in known:
            runs = [(label, run) for label, group in groupby(reversed(labels)) for run, _ in enumerate(group)]
            known[labels] = tuple(reversed(runs))
        lines.append(_Line(number, leaf, known[labels]))
    return lines


def _merge_repetitions(lines: list[_Line]) -> list[_Line]:
    """Remove repetitions that have fewer values than the label they repeat and only fill a column."""
    count: Counter[Key] = Counter()
    for above, times in Counter(line.above for line in lines).items():
        for key in above:
            count[key] += times
    filling = {key for key in count if key[1] and count[key] < count[key[0], 0]}
    if not filling:
        return lines
    return [_Line(line.number, line.leaf, tuple(key for key in line.above if key not in filling)) for line in lines]


def _explain_two_places(key: Key, first: tuple[Key | None, int], second: tuple[Key | None, int]) -> str:
    (parent, line), (other, other_line) = first, second
    if parent is None or other is None:
        where = line if parent is None else other_line
        return f"{key[0]!r} is the root of line {where} only; end every line with the same root"
    both = f"{parent[0]!r} (line {line}) and {other[0]!r} (line {other_line})"
    return f"{key[0]!r} has two parents, {both}; give it one"


def to_arx_csv(taxonomy: Taxonomy, path: Path) -> None:
    """Write one line per value, ``leaf;parent;...;*``, of equal length: a shallow leaf is repeated."""
    height = taxonomy.height
    above = taxonomy.parent.tolist()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\n")
        for leaf in range(taxonomy.n_leaves if taxonomy.missing is None else taxonomy.missing):
            line = [taxonomy.labels[leaf]]
            node = leaf
            while (node := above[node]) >= 0:
                line.append(taxonomy.labels[node])
            writer.writerow([line[0]] * (height + 1 - len(line)) + line)


def to_nested_yaml(taxonomy: Taxonomy, path: Path) -> None:
    """Write the tree as nested mappings, groups of leaves as lists."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(to_nested(taxonomy, lists=True), file, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)


def to_nested(taxonomy: Taxonomy, spelled: Mapping[int, str] | None = None, *, lists: bool = False) -> dict[str, Any]:
    """Return the tree as nested mappings, with empty mappings as leaves or, on request, *lists* of leaves.

    *spelled* replaces the labels of some leaves.

    >>> to_nested(from_nested({"any": {"x": ["a", "b"], "c": {}}}))
    {'any': {'x': {'a': {}, 'b': {}}, 'c': {}}}
    """
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
