"""Set-valued data: a person's items as a few attributes that slicing can publish. See ``docs/transactions.md``."""
