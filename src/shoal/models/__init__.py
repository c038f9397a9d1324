"""One privacy model per file: its parameters, how it judges classes, and its limits in words."""
