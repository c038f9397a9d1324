"""What a policy may write under ``taxonomy``: one builder a file, found by its ``name``."""
