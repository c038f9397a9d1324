"""Alembic's environment of the agency's service; ``shoal agency migrate`` runs it."""
