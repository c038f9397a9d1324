"""What each path does: thin functions that read a message, ask the database and answer."""
