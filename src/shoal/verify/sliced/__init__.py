"""Checking sliced releases: buckets in which values of different parts are no longer linked.

Li, Li, Zhang and Molloy, "Slicing: A New Approach for Privacy Preserving Data Publishing", TKDE 2012.
"""
