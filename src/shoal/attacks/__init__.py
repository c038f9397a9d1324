"""Attacks on releases: each is one file, works from what was published, and returns counts."""
