"""What a steward should know before sharing a release, beside what it promises: one file per finding."""
