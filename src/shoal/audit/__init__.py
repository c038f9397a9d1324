"""The risk of publishing a table as it is: see ``docs/audit.md``."""
