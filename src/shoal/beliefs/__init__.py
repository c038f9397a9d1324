"""What an adversary who knows a person's quasi values believes of the sensitive value, given a sliced table."""

from shoal.beliefs.guarantees import sliced_guarantees
from shoal.beliefs.judging import Beliefs

__all__ = ["Beliefs", "sliced_guarantees"]
