"""The risk of a table before it is released: uniqueness, population estimates, membership, findings."""
