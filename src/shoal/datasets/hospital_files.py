"""Writing hospital stays to files of any length."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from shoal.core.errors import UsageError
from shoal.core.progress import Progress, Silent
from shoal.datasets.hospital import SCHEMA, stays
from shoal.datasets.origins import placed

Sink = Callable[[pa.RecordBatch], None]


def write_stays(
    path: str | os.PathLike[str],
    n: int,
    seed: int | None = None,
    progress: Progress | None = None,
    *,
    missing: float = 0.01,
) -> Path:
    """Write *n* stays to a ``.parquet``, ``.csv`` or ``.csv.gz`` file, which appears only when complete.

    A file of that name is replaced. The rows are those of :func:`~shoal.datasets.hospital.stays`.
    """
    target = Path(path)
    suffix = next((known for known in FORMATS if target.name.endswith(known)), None)
    if suffix is None:
        raise UsageError(f"cannot tell the format of {target.name!r}; end it in one of {', '.join(FORMATS)}")
    batches = stays(n, seed=seed, missing=missing)
    try:
        with (
            placed(target) as partial,
            FORMATS[suffix](partial) as write,
            (progress or Silent()).step("generating hospital stays", total=n) as step,
        ):
            for part in batches:
                write(part)
                step.advance(part.num_rows)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or type(error).__name__}") from error
    return target


@contextmanager
def _parquet(path: Path) -> Iterator[Sink]:
    repeating = [name for name in SCHEMA.names if name not in ("patient", "cost")]
    with pa.parquet.ParquetWriter(path, SCHEMA, compression="snappy", use_dictionary=repeating) as writer:
        yield writer.write_batch


def _csv(path: Path) -> AbstractContextManager[Sink]:
    return _text(path.open("wb"))


def _gzipped_csv(path: Path) -> AbstractContextManager[Sink]:
    return _text(gzip.open(path, "wb", compresslevel=5))


@contextmanager
def _text(stream: BinaryIO | gzip.GzipFile) -> Iterator[Sink]:
    # No value holds a comma or a quotation mark, so nothing is quoted; pyarrow would quote the header.
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    with stream:
        stream.write((",".join(SCHEMA.names) + "\n").encode())
        with pa.csv.CSVWriter(stream, SCHEMA, write_options=options) as writer:
            yield writer.write_batch


FORMATS: dict[str, Callable[[Path], AbstractContextManager[Sink]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".csv.gz": _gzipped_csv,
}
