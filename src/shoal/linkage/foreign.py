"""Tables that others published: the policy says which labels of its taxonomies their texts may be."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from shoal.errors import ShoalError
from shoal.linkage.columns import ABSENT, LinkColumn, coded, own_cover
from shoal.linkage.linkable import Candidates, Linkable, of_rows
from shoal.policy import Policy
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.builders.mask import MaskTaxonomy
from shoal.taxonomies.tree import Taxonomy
from shoal.verify.lines import Cover

SUPPRESSED = "*"


def of_foreign(name: str, table: pa.Table, quasi: Sequence[str], sensitive: str, policy: Policy) -> Linkable:
    """Return a table of others; every row is a record as it stands.

    A text that is a node of the attribute's declared taxonomy covers what the node covers, ``*`` everything, a
    masked text all that begin like it; any other text is a value as it is.
    """
    columns = []
    for attribute in quasi:
        codes, texts = coded(table.column(attribute))
        columns.append((_column(attribute, texts, policy.attributes[attribute].taxonomy), codes))
    codes, texts = coded(table.column(sensitive))
    tree = _declared(policy.attributes[sensitive].taxonomy)
    labels = None
    if tree is not None:
        nodes = _nodes(tree)
        everything: Cover = {"values": list(tree.leaf_labels)}
        covers = {text: nodes.get(text, own_cover(text)) for text in texts if text is not None}
        labels = {text: everything if cover.get("any") else cover for text, cover in covers.items()}
    return of_rows(name, columns, codes, Candidates.of(texts, labels, name))


def _column(name: str, texts: Sequence[str | None], builder: TaxonomyBuilder | None) -> LinkColumn:
    tree = _declared(builder)
    nodes = {} if tree is None else _nodes(tree)
    covers = [_cover(text, nodes, builder) for text in texts]
    prefixes = any("prefixes" in cover for cover in covers)
    kind = "prefix" if prefixes else "category" if tree is None else tree.scale.kind
    reading = {} if tree is None else tree.scale.reading()
    labels = tuple(ABSENT if text is None else text for text in texts)
    return LinkColumn(name, kind, labels, tuple(covers), reading.get("format"), reading.get("length"))


def _cover(text: str | None, nodes: dict[str, Cover], builder: TaxonomyBuilder | None) -> Cover:
    if text is None:
        return own_cover(text)
    if text in nodes:
        return nodes[text]
    if text == SUPPRESSED:
        return {"any": True}
    if isinstance(builder, MaskTaxonomy) and text.endswith(builder.character):
        start = text.rstrip(builder.character)
        return {"prefixes": [start]} if start else {"any": True}
    return own_cover(text)


def _declared(builder: TaxonomyBuilder | None) -> Taxonomy | None:
    """Return the tree that a policy declares by itself; None if it comes from the values of the table."""
    if builder is None or isinstance(builder, MaskTaxonomy):
        return None
    try:
        tree = builder.build(pa.array([], pa.string()))
    except (ShoalError, ValueError):  # a tree that only values can make
        return None
    return tree if tree.declared else None


def _nodes(tree: Taxonomy) -> dict[str, Cover]:
    """Return what each node of the tree covers, by its label."""
    ranges = zip(tree.labels, tree.lo.tolist(), tree.hi.tolist(), strict=True)
    return {label: tree.cover(low, high) for label, low, high in ranges}
