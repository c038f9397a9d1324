"""What an adversary who knows a person's quasi values believes of the sensitive value, given a sliced table."""
