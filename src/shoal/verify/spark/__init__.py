"""Checking a release where Spark's workers are, with the same answer."""
