"""Plots as SVG, each with its description in words and the table that it was drawn from."""
