"""A taxonomy in a notebook: a tree to unfold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.core.display import register
from shoal.core.wording import counted_text
from shoal.reports.notebook.page import heading, output, paragraph
from shoal.reports.plots.svg import escaped

if TYPE_CHECKING:
    from shoal.taxonomies.tree import Taxonomy

MOST_NODES = 300
_MOST_CHILDREN = 40  # of one node
_OPEN = 12  # children of the root that may be seen without unfolding it


@register("taxonomy")
def taxonomy_html(taxonomy: Taxonomy) -> str:
    """Return the tree, upper levels first while there is room; what is left out is counted."""
    shown = _shown(taxonomy)
    summary = (
        f"{counted_text(taxonomy.n_leaves, 'value')} of the kind {taxonomy.scale.kind}, "
        f"{counted_text(taxonomy.n_nodes, 'node')}, height {taxonomy.height}."
    )
    return output(heading("Taxonomy"), paragraph(summary), f"<ul>{_branch(taxonomy, taxonomy.root, shown)}</ul>")


def _shown(taxonomy: Taxonomy) -> dict[int, tuple[int, ...]]:
    """Return the children to be shown of each node, level by level."""
    waiting, found, room = [taxonomy.root], dict[int, tuple[int, ...]](), MOST_NODES
    while waiting and room > 0:
        node, *waiting = waiting
        children = taxonomy.children(node)[: min(_MOST_CHILDREN, room)]
        found[node] = children
        room -= len(children)
        waiting += [child for child in children if not taxonomy.is_leaf(child)]
    return found


def _branch(taxonomy: Taxonomy, node: int, shown: dict[int, tuple[int, ...]]) -> str:
    label = escaped(taxonomy.labels[node])
    if taxonomy.is_leaf(node):
        return f"<li>{label}</li>"
    children = shown.get(node, ())
    hidden = len(taxonomy.children(node)) - len(children)
    values = counted_text(int(taxonomy.hi[node] - taxonomy.lo[node]), "value")
    inside = "".join(_branch(taxonomy, child, shown) for child in children)
    if hidden:
        inside += f'<li class="soft">{hidden:,} more</li>'
    unfolded = " open" if node == taxonomy.root and len(children) <= _OPEN else ""
    return (
        f'<li><details{unfolded}><summary>{label} <span class="soft">({values})</span></summary>'
        f"<ul>{inside}</ul></details></li>"
    )
