"""The sections of the page for a review board, one a file, in the order in which they are read."""
