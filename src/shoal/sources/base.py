"""What a source of records is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.sources.columns import check_flat, is_text, normal_column


@dataclass(frozen=True, slots=True, eq=False)
class Source(ABC):
    """A table that can be read any number of times, always with the same rows in the same order.

    ``name`` stands in messages; ``schema`` holds normal types (see :mod:`shoal.sources.columns`), for
    delimited files text only; ``n_rows`` is None where only reading would tell.
    """

    name: str
    schema: pa.Schema
    n_rows: int | None
    missing: tuple[str, ...]

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows, columns in the order asked; null is missing; at least one row or an error.

        Text columns named in *dictionary* come as ``dictionary<int32, string>`` with distinct entries, each
        batch with a dictionary of its own; all other columns come in the type that ``schema`` says.
        """
        wanted = list(self.schema.names if columns is None else columns)
        self._check(wanted)
        self._check(list(dictionary) or wanted)
        check_flat(self.schema, wanted, self.name)
        coded = frozenset(name for name in dictionary if is_text(self.schema.field(name).type))
        return self._normal_batches(wanted, coded)

    def _normal_batches(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema(
            [
                pa.field(
                    name,
                    pa.dictionary(pa.int32(), pa.string()) if name in coded else self.schema.field(name).type,
                )
                for name in columns
            ]
        )
        some = False
        for batch in self._readable(columns, coded):
            if batch.num_rows == 0:
                continue
            some = True
            arrays = [normal_column(batch.column(name), coded=name in coded, missing=self.missing) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if not some:
            raise InputError(f"{self.name} has no rows")

    def _readable(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read(columns, coded)
        except OSError as error:
            reason = error.strerror or "input or output error"
            raise InputError(f"cannot read {self.name}: {reason}") from None

    def meaning(self, column: str) -> str | None:  # noqa: ARG002
        """Return what the source itself says of a column, for a draft of a policy; most say nothing."""
        return None

    def _check(self, columns: list[str]) -> None:
        if not columns:
            raise UsageError(f"no column of {self.name} is asked for; name at least one")
        known = self.schema.names
        for name in columns:
            if name not in known:
                raise InputError(f"column {name!r} is not in {self.name}{did_you_mean(name, known)}")

    @abstractmethod
    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read batches that hold these columns, in any order and in whatever text types are cheapest."""

    @abstractmethod
    def digest(self) -> str:
        """Return the SHA-256 of the source, so that evidence can say which data a release came from."""


@dataclass(frozen=True, slots=True, eq=False)
class DerivedSource(Source):
    """The rows of another source, changed or fewer; its digest is that of the rows as they were given."""

    given: Source

    def digest(self) -> str:
        """Return the digest of the rows as they were given."""
        return self.given.digest()


def layers(source: Source) -> Iterator[Source]:
    """Yield the source, what it is derived from, and so on to the one that was given."""
    yield source
    while isinstance(source, DerivedSource):
        source = source.given
        yield source
