"""Generated hospital stays, and loaders for Adult and Nursery."""
