"""The one form of a CSV file: the writer's files have it, and files that read the same but look different do not."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.manifest import DataFile
from shoal.sources.writers import header_line, lines
from shoal.verify.engine import Engine, Error
from shoal.verify.files import check_hygiene

TEXTS = st.one_of(st.none(), st.text(alphabet="ab,\"\n\r'=@\t+-(|! ", min_size=1, max_size=5))


def judge(data: bytes, *, allow_empty: bool = True) -> bool:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        path.write_bytes(data)
        stated = DataFile(file="data.csv", format="csv", sha256="0" * 64)
        with Engine([path]) as engine:
            try:
                return all(check.ok for check in check_hygiene(engine, path, stated, () if allow_empty else ("",)))
            except (ValueError, Error):  # the verifier refuses files that cannot be read
                return False


def write(rows: list[tuple[str | None, str | None]]) -> bytes:
    batch = pa.record_batch({"a": pa.array([row[0] for row in rows]).cast("string"), "b, c": [row[1] for row in rows]})
    batch = batch.set_column(1, "b, c", batch.column(1).cast("string"))
    return header_line(batch.schema.names) + bytes(lines(batch))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), st.data())
def test_one_of_all_files_that_read_the_same_is_canonical(rows: list[tuple[str | None, str | None]], data) -> None:
    """A byte is added, removed or changed: the file reads otherwise, or it is refused."""
    written = write(rows)
    assert judge(written, allow_empty=False)
    place = data.draw(st.integers(0, len(written)))
    new = data.draw(st.sampled_from([b"", b'"', b"\r", b"\n", b",", b"'", b"=", b" "]))
    changed = written[:place] + new + written[place + data.draw(st.integers(0, 1)) :]
    if changed != written and _read(changed) == _read(written):
        assert not judge(changed, allow_empty=False)


def _read(data: bytes) -> list[list[str]]:
    """Return the texts of all fields, without the quote before a formula."""
    found = list(csv.reader(io.StringIO(data.decode(), newline="")))
    return [[field[1:] if field.startswith(("'=", "'@", "'\t", "'\r")) else field for field in row] for row in found]


@pytest.mark.parametrize("data", [b"", b"a,b", b"a,b\n1,", b"a,b\r\n1,2\r\n", b'a,b\n"1",2\n', b'a,b\n1,"2\n'])
def test_other_forms(data: bytes) -> None:
    assert not judge(data)


def test_empty_texts_are_written_only_if_they_are_values() -> None:
    data = write([("", None)])
    assert judge(data)
    assert not judge(data, allow_empty=False)


def test_quotes_and_lines_beyond_a_block() -> None:
    """Blocks of a file end where they end: within quotes, too."""
    long = "x" * (1 << 20)
    for text in (f"{long},", f"{long}\n{long}", f'{long}"'):
        data = write([("a", text), (text, "b"), ("c", "d")])
        assert judge(data)
        assert not judge(data.replace(b"\nc,d", b'\n"c",d'))
        assert not judge(data[:-1])
