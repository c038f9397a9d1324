"""Publish tables about people so that nobody in them can be picked out, and prove it."""

__version__ = "0.1.0"
