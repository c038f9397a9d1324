"""Record- and attribute-level risk, population uniqueness, persons and households: see ``docs/risk.md``."""
