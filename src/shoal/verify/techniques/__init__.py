"""Techniques: the manifest's entries on changed columns, and their checks."""
