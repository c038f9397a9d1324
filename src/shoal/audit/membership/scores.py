"""What the buckets of a sliced table tell about a tuple: the figures that an adversary can decide by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.audit.membership import lookups
from shoal.audit.membership.contents import BucketContents
from shoal.core.arrays import AnyIntArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """How strongly the table suggests each tuple.

    The matching degree is the sum over buckets of f(t,B), the product of the shares of the tuple's values in the
    bucket (Li et al., section 4.1). A bucket has f(t,B) |B| copies of it on average over all ways to link the parts.
    The popularity is the number of copies if all buckets were one, which the published values tell under any grouping.
    """

    matching_buckets: IntArray  # (n_tuples,)
    matching_degree: FloatArray
    expected_copies: FloatArray
    popularity: FloatArray

    def __getitem__(self, rows: IntArray) -> Scores:
        return Scores(
            self.matching_buckets[rows], self.matching_degree[rows], self.expected_copies[rows], self.popularity[rows]
        )

    @property
    def excess(self) -> FloatArray:
        """Expected copies over popularity: what the grouping adds; 0 for a tuple that matches nowhere."""
        known = self.popularity > 0
        return np.divide(self.expected_copies, self.popularity, out=np.zeros(len(known)), where=known)

    @classmethod
    def of(cls, contents: BucketContents, tuples: AnyIntArray) -> Scores:
        """Score ``tuples``, (n_parts, n_tuples) values; -1 is a value that the table does not show.

        >>> contents = BucketContents.of(np.array([0, 0, 1, 1]), [np.array([0, 1, 1, 1]), np.array([0, 1, 1, 1])])
        >>> scores = Scores.of(contents, np.array([[0, 1, 0], [0, 1, -1]]))
        >>> scores.matching_buckets.tolist(), scores.expected_copies.tolist(), scores.popularity.tolist()
        ([1, 2, 0], [0.5, 2.5, 0.0], [0.25, 2.25, 0.0])
        """
        flat = contents.flat()
        codes = contents.known(tuples)
        found = lookups.scores(codes, flat.value_first, flat.first, flat.bucket, flat.count, contents.sizes)
        popularity = np.full(codes.shape[1], float(contents.n_records))
        for part, values in zip(contents.parts, codes, strict=True):
            popularity *= np.append(part.records_of, 0)[values] / contents.n_records
        return cls(*found, popularity)
