"""What the data holder wants: roles, taxonomies, techniques, privacy models, method."""
