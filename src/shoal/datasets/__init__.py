"""Tables to try things on: generated hospital stays, and loaders for Adult and Nursery."""
