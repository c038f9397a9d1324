"""What owners, clients and staff send to an agency's service, and what they take from its answers."""
