"""What a manifest declares of a column whose values were changed before anything else was done with the source.

Written for this purpose alone: the verifier shares no code with the techniques that changed the columns.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from shoal.verify.techniques.values import ColumnValues


@dataclass(frozen=True, slots=True)
class Declared(ABC):
    """One column's technique as the manifest declares it: what its values must look like, and what they follow from."""

    name: ClassVar[str]
    moved: ClassVar[bool] = False  # whether rows have each other's values
    numeric: ClassVar[bool] = False  # whether what is published are numbers, however they are spelled
    roles: ClassVar[tuple[str, ...]] = ("quasi", "sensitive", "insensitive")

    column: str

    @property
    def determined(self) -> bool:
        """Whether a published value follows from the source's, so that rows can be compared by it."""
        return False

    @property
    def compared(self) -> bool:
        """Whether ``unlike`` looks for something in the source's values."""
        return not self.determined and not self.moved

    @property
    def kind(self) -> pa.DataType:
        """The type of recomputed values."""
        raise NotImplementedError

    def recomputed(self, values: pa.Array) -> pa.Array:
        """Return what values of the source become, none of which is missing, if that is determined."""
        raise NotImplementedError

    def misshapen(self, published: ColumnValues) -> str | None:  # noqa: ARG002
        """Return what is wrong with the published values by themselves, if something is."""
        return None

    def unlike(self, published: ColumnValues, original: ColumnValues) -> str | None:  # noqa: ARG002
        """Return why the published values cannot come from the source's, if they cannot."""
        return None

    @property
    def confirmed(self) -> str:
        """What was found if nothing is wrong, compared with the source or not."""
        raise NotImplementedError


def kept_missing(published: ColumnValues, original: ColumnValues) -> str | None:
    """Return a fault unless values and missing values are both no more than the source has."""
    if published.missing > original.missing or published.present > original.present:
        return "has another number of missing values than the source"
    return None
