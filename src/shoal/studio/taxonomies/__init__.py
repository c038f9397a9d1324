"""Taxonomies in the studio: reading, editing, checking and drawing those of a policy, without any web."""
