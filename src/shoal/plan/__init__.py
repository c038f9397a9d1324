"""What a method is asked and what it answers: problem and cells, plan, slices and synthetic rows."""
