"""Techniques with usual parameters, one file each, applied to the attributes that a policy declares."""
