"""A tree written into the policy."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.nested import from_nested
from shoal.taxonomies.tree import Taxonomy


class TreeTaxonomy(TaxonomyBuilder):
    """Nested mappings with one root, as in a YAML file.

    >>> policy = {"any": {"hemal disease": ["hepatitis", "anemia"], "flu": {}}}
    >>> TreeTaxonomy.model_validate(policy).build(pa.array([])).labels
    ('hepatitis', 'anemia', 'flu', 'hemal disease', 'any')
    """

    name: ClassVar[str] = "tree"
    title: ClassVar[str] = "a tree of values, written in place"
    shorthand: ClassVar[str | None] = "tree"
    shorthand_is_mapping: ClassVar[bool] = True

    tree: dict[Any, Any] = Field(
        description="the root, under it its groups, under each a list of values, a mapping of groups, or {}"
    )

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        """Take the tree as it is written."""
        return from_nested(self.tree, name="tree taxonomy")
