"""Taxonomies: trees of values to which an attribute can be generalized."""
