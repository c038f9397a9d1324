"""Attacks on releases: each attack is one file, works from the published files, and returns counts."""
