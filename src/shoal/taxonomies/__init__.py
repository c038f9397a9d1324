"""Value trees: what the values of each attribute may be generalized to, their files, and their builders."""
