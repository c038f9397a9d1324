"""Connections to databases: what all can do, and one file for each kind."""
