"""Learners that people would train on a release, fit for generalized values."""
