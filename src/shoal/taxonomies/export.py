"""Writing trees as files that ``file`` taxonomies, ARX and people read.

The leaf for missing values is not written: whether there is one is for the policy to say.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from shoal.taxonomies.tree import Taxonomy


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


def nested(taxonomy: Taxonomy, spelled: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Return the tree as nested mappings, leaves empty ones; some leaves may be *spelled* unlike their labels.

    >>> from shoal.taxonomies.nested import from_nested
    >>> nested(from_nested({"any": {"x": ["a", "b"], "c": {}}}))
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
