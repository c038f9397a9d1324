"""How releases, audits, taxonomies and comparisons show themselves in a notebook, and progress there."""
