"""One class per form of release, which owns everything in which forms differ."""
