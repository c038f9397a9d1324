"""Policies: reading, checking and drafting them, and binding them to a table."""
