"""Comparisons of techniques and policies on one table: attacks, promises and utility."""
