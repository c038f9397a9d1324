"""How long commands take with more rows, cells, attributes and cores, and what follows for a cluster."""
