"""Delimited text files, whose fields are read as text without changes."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from shoal.core.errors import InputError
from shoal.core.wording import count_noun
from shoal.sources.base import OpenedFile, Source, SourceOptions, read_ahead
from shoal.sources.columns import CODES, check_names

_RAW_BLOCK = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
BLOCK_BYTES = 8 << 20
_SAMPLE_BYTES = 1 << 20
_SAMPLE_RECORDS = 100
_DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True, eq=False)
class DelimitedSource(Source):
    """A CSV, TSV or similar text file, plain or gzip, read in blocks.

    Fields are not trimmed or converted: ``007`` stays ``007``. A quoted field can be missing like any other. Only the
    quote that keeps a spreadsheet from running a field (``'=1+1``) is removed.
    """

    parses = True

    path: Path
    file: OpenedFile
    dialect: Dialect
    header_bytes: int  # of UTF-8 text before the first data record
    block_bytes: int

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        ragged: list[tuple[int, int]] = []
        failed, names = False, self.schema.names

        def note(row: pyarrow.csv.InvalidRow) -> str:
            ragged.append((row.expected_columns, row.actual_columns))
            return "error"

        with TextStream(self.path, self.dialect.encoding, self.dialect.quote) as stream:
            left = self.header_bytes
            while left and (skipped := stream.read(left)):
                left -= len(skipped)
            if left:
                raise InputError(f"{self.name} changed while it was being read: its first line is gone")
            try:
                with pyarrow.csv.open_csv(
                    pa.PythonFile(stream, mode="r"),
                    read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=self.block_bytes),
                    parse_options=pyarrow.csv.ParseOptions(
                        delimiter=self.dialect.delimiter,
                        quote_char=self.dialect.quote or False,
                        newlines_in_values=True,
                        ignore_empty_lines=len(names) > 1,  # in a single column, an empty line is a missing value
                        invalid_row_handler=note,
                    ),
                    convert_options=pyarrow.csv.ConvertOptions(
                        check_utf8=False,  # the stream has checked it
                        include_columns=columns,
                        column_types={name: CODES if name in coded else pa.string() for name in names},
                        strings_can_be_null=False,  # `Cleaning` finds the missing values of all sources
                    ),
                ) as reader:
                    yield from read_ahead(reader)
            except pa.ArrowInvalid:
                failed = True  # explained outside the handler because the parser's message quotes the row
            odd = stream.n_quotes % 2 == 1
        if failed:
            self._explain(ragged)
        if odd:
            self._check_quotes()

    def _explain(self, ragged: list[tuple[int, int]]) -> None:
        """Raise an error that names the wrong line; return if the file is only a header."""
        expected = len(self.schema.names)
        last = 1
        read = records(self.path, self.dialect)
        for line, fields in read:
            if fields and len(fields) != expected:
                if any("\n" in field for field in fields):  # perhaps an open quote swallowed the rest of the file
                    self._check_quotes()
                ends = len(fields) < expected and next(read, None) is None
                raise InputError(self._describe_ragged(f"line {line}", expected, len(fields), ends=ends))
            last = line
        if ragged:
            raise InputError(self._describe_ragged(f"a line before line {last + 1}", *ragged[0]))
        if last > 1:
            raise InputError(f"{self.name}: a record is longer than {self.block_bytes} bytes; is a quote not closed?")

    def _check_quotes(self) -> None:
        deque(records(self.path, self.dialect, strict=True), maxlen=0)

    def _describe_ragged(self, where: str, expected: int, received: int, *, ends: bool = False) -> str:
        advice = "correct the line, or set `delimiter` or `quote`"
        if ends:
            advice = "it is the last line: correct it, or fetch the file again if it is truncated there"
        fields = count_noun(received, "field")
        return f"{self.name}: {where} has {fields} where the table has {expected}; {advice}"

    def digest(self) -> str:
        """Return the SHA-256 of the file's bytes, before unpacking."""
        return self.file.digest()


def open_delimited(path: Path, options: SourceOptions, block_bytes: int = BLOCK_BYTES) -> DelimitedSource:
    """Open a delimited text file after finding its delimiter and columns; raise if it has no rows."""
    file = OpenedFile.of(path)
    with TextStream(path, options.encoding) as stream:
        sample, whole = _sample(stream)
    if not sample.strip("\r\n"):
        raise InputError(f"{path.name} is empty")
    delimiter = options.delimiter or _sniff(sample, whole, options, tab_first=".tsv" in path.suffixes)
    dialect = Dialect(delimiter, options.quote, options.encoding)
    first, rest = _first_record(sample, dialect, path.name)
    if options.names is not None and len(options.names) != len(first):
        raise InputError(
            f"`names` has {len(options.names)}, {path.name} has {len(first)}: give one name for each column"
        )
    names = options.names or (first if options.header else [f"c{i}" for i in range(1, len(first) + 1)])
    check_names(names, path.name)
    if options.header and whole and not rest.strip("\r\n") and (len(names) > 1 or not rest):
        raise InputError(f"{path.name} has a header but no rows")
    header = len(sample) - len(rest) if options.header else 0
    return DelimitedSource(
        name=path.name,
        schema=pa.schema([pa.field(name, pa.string()) for name in names]),
        n_rows=None,
        cleaning=replace(options.cleaning, guarded=True),
        path=path,
        file=file,
        dialect=dialect,
        header_bytes=len(sample[:header].encode()),
        block_bytes=block_bytes,
    )


def find_encoding(path: Path) -> str:
    """Return the first encoding that can decode the whole file, or UTF-8 if there is none."""
    for encoding in ("utf-8", "utf-16", "cp1252", "latin-1"):
        with contextlib.suppress(InputError), TextStream(path, encoding) as stream:
            while stream.read(_RAW_BLOCK):
                pass
            return encoding
    return "utf-8"


def _sample(stream: TextStream) -> tuple[str, bool]:
    """Return the beginning of the text, and whether it is the whole text."""
    parts = []
    size = 0
    while size < _SAMPLE_BYTES and (part := stream.read(_SAMPLE_BYTES - size)):
        parts.append(part)
        size += len(part)
    whole = not stream.read(1)
    return b"".join(parts).decode("utf-8", errors="ignore"), whole


def _sniff(sample: str, whole: bool, options: SourceOptions, *, tab_first: bool) -> str:
    """Return the delimiter that splits the first records into most fields, preferring equal numbers of fields."""
    best = (False, 1)
    found = "\t" if tab_first else ","
    for delimiter in sorted(_DELIMITERS, key=lambda candidate: candidate != found):
        if delimiter == options.quote:
            continue
        dialect = Dialect(delimiter, options.quote, options.encoding)
        widths = _widths(sample, whole, dialect)
        score = (len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 1)
        if score > best:
            best, found = score, delimiter
    return found


def _widths(sample: str, whole: bool, dialect: Dialect) -> list[int]:
    """Return the number of fields of each of the first nonempty records."""
    widths: list[int] = []
    reader = csv.reader(io.StringIO(sample, newline=""), **dialect.reader_arguments())
    try:
        for fields in reader:
            if fields:
                widths.append(len(fields))
            if len(widths) == _SAMPLE_RECORDS:
                return widths
    except csv.Error:
        return widths
    return widths if whole else widths[:-1]


def _first_record(sample: str, dialect: Dialect, name: str) -> tuple[list[str], str]:
    """Return the fields of the first nonempty record, and the text after it."""
    text = io.StringIO(sample, newline="")
    reader = csv.reader(iter(text.readline, ""), strict=True, **dialect.reader_arguments())
    try:
        fields = next(fields for fields in reader if fields)
    except csv.Error:
        raise InputError(f"{name}: the quotes of the first record do not close; correct it, or set `quote`") from None
    return fields, sample[text.tell() :]


@dataclass(frozen=True, slots=True)
class Dialect:
    delimiter: str
    quote: str
    encoding: str

    def reader_arguments(self) -> dict[str, Any]:
        """Return keyword arguments for ``csv.reader``."""
        if not self.quote:
            return {"delimiter": self.delimiter, "quoting": csv.QUOTE_NONE}
        return {"delimiter": self.delimiter, "quotechar": self.quote}


class TextStream(io.RawIOBase):
    """The text of a file, converted to UTF-8 without byte order mark; raises if the bytes cannot be decoded.

    The stream checks the whole file, including the columns that are not read, and names the line of an error.
    """

    def __init__(self, path: Path, encoding: str, quote: str = "") -> None:
        self._name = path.name
        self._encoding = encoding
        self._wide = encoding.startswith(("utf-16", "utf-32"))
        self._quote = quote.encode()
        self._file: io.BufferedReader | gzip.GzipFile = path.open("rb")
        if path.suffix == ".gz" or self._file.peek(2)[:2] == _GZIP_MAGIC:
            self._file.close()
            self._file = gzip.open(path, "rb")  # noqa: SIM115  closed with the stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._offset = 0  # of the next byte to read from the unpacked file
        self._line = 1  # of the next byte to hand on
        self._left = b""
        self._ended = False
        self.n_quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to *size* bytes of text, or none at the end."""
        if size < 0:
            return self.readall()
        while not self._left and not self._ended:
            self._left = self._check(self._next(max(size, _RAW_BLOCK)))
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def readinto(self, buffer: Any) -> int:
        taken = self.read(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        self._file.close()
        io.RawIOBase.close(self)

    def _next(self, size: int) -> bytes:
        parts: list[bytes] = []
        left = size
        try:
            while left and (part := self._file.read1(left)):
                parts.append(part)
                left -= len(part)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise InputError(
                f"{self._name} is not a whole gzip file: it is truncated or damaged after "
                f"{self._offset + size - left} unpacked bytes; fetch it again"
            ) from None
        raw = b"".join(parts)
        self._ended = not raw
        if self._offset == 0 and raw.startswith(codecs.BOM_UTF8) and not self._wide:
            self._offset = len(codecs.BOM_UTF8)
            raw = raw[self._offset :]
        return raw

    def _check(self, raw: bytes) -> bytes:
        self._offset += len(raw)
        if self._encoding == "utf-8" and raw.isascii() and not self._decoder.getstate()[0]:
            text = raw
        else:
            text = self._decode(raw)
        nul = text.find(b"\0")
        if nul >= 0:
            line = self._line + text.count(b"\n", 0, nul)
            raise InputError(
                f"{self._name} has a NUL byte in line {line}: it is not delimited text, or its encoding is "
                f"not {self._encoding}; set `encoding`"
            )
        self._line += _count(text, b"\n")
        if self._quote:
            self.n_quotes += _count(text, self._quote)
        return text

    def _decode(self, raw: bytes) -> bytes:
        try:
            text = self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            seen, at = error.object, error.start
        except UnicodeError:  # UTF-16 or UTF-32 without its byte order mark
            seen, at = raw, 0
        else:
            return raw if self._encoding == "utf-8" else text.encode("utf-8")
        # This is outside the handlers because the decoder's error carries the text itself.
        line = self._line + seen.count(b"\n", 0, at)
        offset = self._offset - len(seen) + at
        wide = seen.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        likelier = "utf-8" if self._encoding != "utf-8" else "utf-16" if wide else "cp1252 or latin-1"
        raise InputError(
            f"{self._name} is not {self._encoding}: byte {offset} (line {line}) does not fit; set `encoding`,"
            f" for example to {likelier}"
        )


def _count(text: bytes, character: bytes) -> int:
    """Count a one-byte character; ``bytes.count`` is slow if the character is frequent."""
    return int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == character[0]))


def records(path: Path, dialect: Dialect, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the fields of each record, with the slow reader; blank lines have no fields.

    *strict* also raises for text between a closing quote and the next delimiter.
    """
    with TextStream(path, dialect.encoding) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream, _RAW_BLOCK), encoding="utf-8", newline="")
        reader = csv.reader(text, strict=strict, **dialect.reader_arguments())
        line = 1
        try:
            for fields in reader:
                yield line, fields
                line = reader.line_num + 1
        except csv.Error:
            raise InputError(
                f"{path.name}: the quotes of the record that starts in line {line} do not close, or a field "
                "of it is too long; correct that line, or set `quote`"
            ) from None
