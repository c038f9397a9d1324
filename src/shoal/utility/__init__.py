"""Measures of utility: each is one number for what a release keeps of the table."""
