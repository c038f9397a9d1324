"""Using sliced releases: reading them, asking them, linking their parts again."""
