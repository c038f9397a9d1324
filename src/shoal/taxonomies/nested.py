"""Reading nested trees: mappings of Python, YAML and JSON.

A mapping's keys are nodes; under a key stand its children (a mapping, or a list of leaves), or nothing
(``{}`` or null) if it is a leaf itself. Everything is taken as text exactly as it is written.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import yaml

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.construct import from_parents
from shoal.taxonomies.tree import Taxonomy

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
            raise TaxonomyError(_met_again(labels, parents, node, met[id(value)], name))
        met[id(value)] = node
        waiting.extend([(node, *child) for child in below][::-1])
    known = [line or 0 for line in lines]
    return from_parents(labels, parents, name=name, lines=known if all(known) else None)


def _met_again(labels: list[str], parents: list[int], node: int, first: int, name: str) -> str:
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
