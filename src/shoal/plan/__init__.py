"""The input and output of methods: cells and problem, plans of classes, slices and synthetic rows."""
