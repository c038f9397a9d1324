"""Connections to databases: their common interface, and a module for each kind of database."""
