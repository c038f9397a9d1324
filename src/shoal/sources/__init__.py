"""Sources of records, and writers that leak nothing: see ``docs/sources.md``."""
