"""From a plan to what is published of it: one shape for generalizations and slicings."""
