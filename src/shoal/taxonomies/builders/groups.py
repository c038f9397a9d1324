"""Ordered groups written into the policy, under a root of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.construct import ROOT_LABEL
from shoal.taxonomies.nested import from_nested
from shoal.taxonomies.tree import Taxonomy


class GroupsTaxonomy(TaxonomyBuilder):
    """Groups of values in the order written, under ``*``.

    >>> GroupsTaxonomy.model_validate({"low": ["a", "b"], "high": ["c", "d"]}).build(pa.array([])).labels
    ('a', 'b', 'c', 'd', 'low', 'high', '*')
    """

    name: ClassVar[str] = "groups"
    title: ClassVar[str] = "named groups of values, in order"
    shorthand: ClassVar[str | None] = "groups"
    shorthand_is_mapping: ClassVar[bool] = True

    groups: dict[Any, Any] = Field(
        description="from each group to its values: a list, or a mapping of smaller groups; order is kept"
    )

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        """Put the groups under the root, in the order written."""
        return from_nested(self.groups, root=ROOT_LABEL, name="groups taxonomy")
