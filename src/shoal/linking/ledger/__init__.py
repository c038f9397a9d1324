"""The ledger of releases, and the checks of a new release against all earlier ones."""
