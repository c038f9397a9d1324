"""Risk before and after a release: uniqueness, population estimates, findings, and the decision record."""
