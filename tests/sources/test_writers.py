"""Written files hold the rows and nothing else, or are not there."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.core.errors import InputError, UsageError
from shoal.sources.opening import open_source
from shoal.sources.writers import open_writer

FORMATS = ("csv", "csv.gz", "parquet")


def spare(codes: list[int | None]) -> pa.DictionaryArray:
    """A coded column with entries that no row uses."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), ["zebra", "UNUSED-VALUE", "ant", "HIDDEN-VALUE"])


def batch() -> pa.RecordBatch:
    return pa.record_batch({"animal": spare([0, 2, None, 2]), "cost": [0.1, None, 3.0, 1e300], "n": [1, 2, 3, None]})


@pytest.fixture(params=FORMATS)
def ending(request):
    """The ending of a file that a writer makes."""
    return request.param


def opened(path, schema, **options):
    return open_writer(path, schema, "parquet" if path.suffix == ".parquet" else "csv", **options)


def raw(path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def read(path) -> list[dict[str, object]]:
    return [row for b in open_source(path).batches() for row in b.to_pylist()]


def test_rows_come_back(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    with opened(path, batch().schema) as writer:
        writer.write(batch())
        writer.write(batch().slice(0, 0))
        writer.write(batch().slice(1, 2))
    assert writer.rows == 6
    expected = batch().to_pylist() + batch().slice(1, 2).to_pylist()
    if ending == "parquet":
        assert read(path) == expected
    else:
        texts = [{k: None if v is None else str(v) for k, v in row.items()} for row in expected]
        for row in texts:
            row["cost"] = {"3.0": "3"}.get(row["cost"], row["cost"])
        assert read(path) == texts


def test_csv_as_it_is_written(tmp_path):
    path = tmp_path / "out.csv"
    with opened(path, batch().schema) as writer:
        writer.write(batch())
    assert path.read_bytes() == b"animal,cost,n\nzebra,0.1,1\nant,,2\n,3,3\nant,1e+300,\n"


def test_csv_quotes_only_where_needed(tmp_path):
    path = tmp_path / "out.csv"
    rows = pa.record_batch({"a,b": ["x", "y;z", 'q"r', "", None, "l\nm", "l\rm"], "c": spare([0, 2, 2, 2, 2, 2, None])})
    with opened(path, rows.schema) as writer:
        writer.write(rows)
    expected = '"a,b",c\nx,zebra\ny;z,ant\n"q""r",ant\n"",ant\n,ant\n"l\nm",ant\n"l\rm",\n'
    assert path.read_bytes() == expected.encode()


def test_list_unused_and_metadata_do_not_survive(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    fields = [f.with_metadata({"note": "FIELD-SECRET", "PARQUET:field_id": "77"}) for f in batch().schema]
    schema = pa.schema(fields, metadata={"pandas": "SCHEMA-SECRET"})
    with opened(path, schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(batch().columns, schema=schema))
    content = path.read_bytes() + raw(path)
    for secret in (
        b"UNUSED-VALUE",
        b"HIDDEN-VALUE",
        b"FIELD-SECRET",
        b"SCHEMA-SECRET",
        b"pandas",
        b"ARROW:schema",
    ):
        assert secret not in content
    assert b"zebra" in raw(path)


def test_values_under_missing_places_do_not_survive(tmp_path, ending):
    values = pa.array(["SECRET-NAME", "open"])
    masked = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), *values.buffers()[1:]])
    codes = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x02"), pa.array([1, 0], pa.int32()).buffers()[1]])
    coded = pa.DictionaryArray.from_arrays(codes, ["open", "SECRET-CODE"])
    path = tmp_path / f"out.{ending}"
    rows = pa.record_batch({"a": masked, "b": coded})
    with opened(path, rows.schema) as writer:
        writer.write(rows)
    assert b"SECRET" not in raw(path)
    assert [list(row.values()) for row in read(path)] == [[None, None], ["open", "open"]]


def test_parquet_tells_nothing_but_rows(tmp_path):
    path = tmp_path / "out.parquet"
    schema = pa.schema(list(batch().schema), metadata={"origin": "x"})
    with opened(path, schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(batch().columns, schema=schema))
        writer.write(pa.RecordBatch.from_arrays(batch().slice(1).columns, schema=schema))
    meta = pq.read_metadata(path)
    assert meta.metadata is None
    assert meta.num_row_groups == 2
    for group in range(meta.num_row_groups):
        for i in range(meta.num_columns):
            column = meta.row_group(group).column(i)
            assert not column.is_stats_set
            assert not column.has_offset_index
            assert not column.has_column_index
            assert column.bloom_filter_offset is None
    fields = pq.read_schema(path)
    assert fields.types == [pa.string(), pa.float64(), pa.int64()]
    assert all(field.metadata is None for field in fields)


def test_dictionaries_of_parquet_are_sorted_and_their_own(tmp_path):
    path = tmp_path / "out.parquet"
    rows = pa.record_batch({"animal": spare([0, 2, None, 0])})
    with opened(path, rows.schema) as writer:
        writer.write(rows)
        writer.write(pa.record_batch({"animal": spare([2, 2])}))
    groups = pq.ParquetFile(path, read_dictionary=["animal"])
    dictionaries = [groups.read_row_group(i)["animal"].chunk(0).dictionary.to_pylist() for i in range(2)]
    assert dictionaries == [["ant", "zebra"], ["ant"]]


def test_gzip_header_has_no_name_and_no_time(tmp_path):
    path = tmp_path / "secret-name.csv.gz"
    with opened(path, batch().schema) as writer:
        writer.write(batch())
    header = path.read_bytes()[:10]
    assert header[:4] == b"\x1f\x8b\x08\x00"  # no flags: neither name nor comment
    assert header[4:8] == b"\0\0\0\0"
    assert b"secret" not in path.read_bytes()


def test_owner_only_until_closed(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    writer = opened(path, batch().schema)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    writer.write(batch())
    writer.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    size = path.stat().st_size
    writer.close()
    writer.discard()
    assert path.stat().st_size == size


def test_nothing_is_overwritten(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        opened(path, batch().schema)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_removes_the_file(tmp_path, ending, error):
    path = tmp_path / f"out.{ending}"

    def interrupted():
        with opened(path, batch().schema) as writer:
            writer.write(batch())
            raise error

    with pytest.raises(error):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_other_columns_are_refused_and_the_file_removed(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    writer = opened(path, batch().schema)
    with pytest.raises(UsageError, match="a batch has"):
        writer.write(batch().select(["n"]))
    assert not path.exists()


def test_wrong_type_removes_the_file(tmp_path):
    path = tmp_path / "out.parquet"
    writer = opened(path, batch().schema)
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError)):
        writer.write(pa.record_batch({"animal": ["x"], "cost": ["y"], "n": [1]}))
    assert not path.exists()


def test_columns_that_are_not_flat_are_refused(tmp_path, ending):
    with pytest.raises(InputError, match="column 'tags' of out"):
        opened(tmp_path / f"out.{ending}", pa.schema({"tags": pa.list_(pa.string())}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="file size limits are a Unix matter")
@pytest.mark.parametrize("moment", ["write", "close"])
def test_disk_full(tmp_path, ending, moment):
    """A limit on file sizes stands for a full disk: the system refuses to write on."""
    script = f"""
    import resource, signal
    from pathlib import Path
    import numpy as np, pyarrow as pa
    from shoal.core.errors import UsageError
    from shoal.sources.writers import open_writer
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    noise = np.random.default_rng(1)
    kind = "parquet" if {ending!r} == "parquet" else "csv"
    rows = pa.record_batch({{"x": noise.random(500_000 if {moment!r} == "write" else 3_000)}})
    limit = 1 << (20 if {moment!r} == "write" else 13)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        with open_writer(Path("out.{ending}"), rows.schema, kind) as writer:
            for _ in range(10 if {moment!r} == "write" else 1):
                writer.write(rows)
    except UsageError as error:
        print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"no space left on the disk while writing out.{ending}; nothing was published\n"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
