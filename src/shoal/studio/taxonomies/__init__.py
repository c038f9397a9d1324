"""Taxonomies of a policy: reading, editing, checking and drawing them, independent of web pages."""
