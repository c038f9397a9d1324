"""Techniques and policies side by side on one table: what each leaves to attacks, promises, keeps and costs."""

from shoal.comparing.comparing import compare, recipe_names
from shoal.comparing.result import Comparison, Row

__all__ = ["Comparison", "Row", "compare", "recipe_names"]
