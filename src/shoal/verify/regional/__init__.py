"""Checking a release larger than memory part by part, with the same answer."""
