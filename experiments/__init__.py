"""The experiments of the source papers run again: their figures, statements and pages, from the repository only."""
