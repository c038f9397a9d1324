"""Measures of what a release keeps, one file each: the same for every kind of release."""
