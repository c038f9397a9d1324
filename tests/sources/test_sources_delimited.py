"""Dialects of delimited text."""

from __future__ import annotations

import codecs
import gzip

import pytest
from pydantic import ValidationError

from shoal.core.errors import InputError
from shoal.sources.base import SourceOptions
from shoal.sources.delimited import open_delimited
from shoal.sources.opening import open_source


def read(path, **options):
    source = open_source(path, SourceOptions(**options))
    return [row for batch in source.batches() for row in batch.to_pylist()]


@pytest.fixture
def write(tmp_path):
    """Write bytes or text to a file of that name."""

    def _write(content, name="people.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_found(write, delimiter):
    path = write(f"age{delimiter}name\n7{delimiter}Ann\n")
    assert read(path) == [{"age": "7", "name": "Ann"}]


def test_delimiter_is_found_by_even_widths_not_by_frequency(write):
    path = write('cost;name\n1,5;"a, b, c"\n2,5;d\n')
    assert read(path) == [{"cost": "1,5", "name": "a, b, c"}, {"cost": "2,5", "name": "d"}]


def test_single_column_keeps_empty_lines_as_missing(write):
    assert read(write("name\nAnn\n\nBob\n")) == [{"name": "Ann"}, {"name": None}, {"name": "Bob"}]


def test_blank_lines_between_wider_records_are_nothing(write):
    assert read(write("\na,b\n\n1,2\n\n")) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_line(write, end):
    assert read(write(end.join(["a,b", "1,2", "3,4"]))) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_quotes_delimiters_and_newlines_inside_fields(write):
    path = write('"a ""b""","c\nd"\n"x,\n""y""",z\n')
    assert read(path) == [{'a "b"': 'x,\n"y"', "c\nd": "z"}]


@pytest.mark.parametrize("size", [64, 100, 1000])
def test_line_ends_inside_fields_at_the_borders_of_blocks(write, size):
    path = write("a,b\n" + "".join(f'"{i}\n,\nx",{i}\n' for i in range(500)))
    source = open_delimited(path, SourceOptions(), block_bytes=size)
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    assert rows == [{"a": f"{i}\n,\nx", "b": str(i)} for i in range(500)]


def test_other_quote_and_none(write):
    assert read(write("a;b\n'1;2';3\n"), quote="'") == [{"a": "1;2", "b": "3"}]
    assert read(write('a;b\n"1;2\n'), quote="") == [{"a": '"1', "b": "2"}]


def test_missing_texts_are_exact_and_quoting_does_not_matter(write):
    path = write('a,b\n?,"?"\n ?,""\n')
    assert read(path, missing=["?"]) == [{"a": None, "b": None}, {"a": " ?", "b": ""}]
    assert read(path, missing=[]) == [{"a": "?", "b": "?"}, {"a": " ?", "b": ""}]


def test_without_header(write):
    path = write("1,2\n3,4\n")
    assert read(path, header=False) == [{"c1": "1", "c2": "2"}, {"c1": "3", "c2": "4"}]
    assert read(path, header=False, names=["x", "y"])[0] == {"x": "1", "y": "2"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1", "shift_jis"])
def test_encodings(write, encoding):
    town = "東京" if encoding == "shift_jis" else "Köln"
    text = "town,n\n" + f"{town},1\n" * 70_000
    rows = read(write(text.encode(encoding)), encoding=encoding)
    assert len(rows) == 70_000
    assert {row["town"] for row in rows} == {town}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_byte_order_mark_is_dropped(write, encoding):
    assert read(write(codecs.BOM_UTF8 + b"a,b\n1,2\n"), encoding=encoding) == [{"a": "1", "b": "2"}]


def test_gzip_is_known_by_its_bytes(write):
    packed = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    for name in ("x.csv.gz", "x.csv", "x.TXT.GZ"):
        assert read(write(packed, name)) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": "ab"},
        {"delimiter": "\n"},
        {"delimiter": "é"},
        {"delimiter": '"'},
        {"quote": "''"},
        {"encoding": "utf-9"},
        {"encoding": "base64"},
        {"seperator": ","},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ValidationError):
        SourceOptions(**options)


def test_a_file_that_is_emptied_after_it_was_opened_is_an_error(write):
    source = open_source(write("name,age\nAnn,7\n"))
    write("")
    with pytest.raises(InputError, match="changed while it was being read"):
        list(source.batches())
