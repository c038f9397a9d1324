"""Rows as lines of delimited text, column by column."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shoal.sources.columns import coded_text, is_text, normal_column
from shoal.sources.options import CsvStyle


def header_line(names: Sequence[str], style: CsvStyle) -> bytes:
    """Return the line of column names.

    >>> header_line(["age", "sex, as told"], CsvStyle())
    b'age,"sex, as told"\\n'
    """
    fields = _quoted(pa.array(names, pa.string()), style).to_pylist()
    return (style.delimiter.join(fields) + "\n").encode()


def lines(batch: pa.RecordBatch, style: CsvStyle) -> memoryview:
    """Return the bytes of all rows, each with its end of line.

    >>> bytes(lines(pa.record_batch({"a": ["x", None, ""], "b": [0.1, 2.0, None]}), CsvStyle()))
    b'x,0.1\\n,2\\n"",\\n'
    """
    fields = [_fields(column, style) for column in batch.columns]
    rows = pc.binary_join_element_wise(*fields, style.delimiter)
    ended = pc.binary_join_element_wise(rows, "", "\n")  # the "separator" before nothing is the end of line
    offsets = np.frombuffer(ended.buffers()[1], dtype=np.int32)
    text = memoryview(ended.buffers()[2])
    return text[offsets[ended.offset] : offsets[ended.offset + len(ended)]]


def _fields(column: pa.Array, style: CsvStyle) -> pa.Array:
    """Return (n_rows,) the texts between delimiters; null is empty."""
    if is_text(column.type):
        if pt.is_dictionary(column.type):
            coded = coded_text(column)
            texts = _quoted(coded.dictionary, style).take(coded.indices)
        else:
            texts = _quoted(normal_column(column, coded=False, missing=()), style)
    else:
        texts = normal_column(column, coded=False, missing=()).cast(pa.string())
    return texts.fill_null("")


def _quoted(texts: pa.Array, style: CsvStyle) -> pa.Array:
    special = "".join(re.escape(character) for character in (style.delimiter, style.quote, "\r", "\n"))
    needed = pc.match_substring_regex(texts, f"[{special}]|^$")
    if not pc.any(needed).as_py():
        return texts
    doubled = pc.replace_substring(texts, style.quote, style.quote * 2)
    enclosed = pc.binary_join_element_wise(style.quote, doubled, style.quote, "")
    return pc.if_else(needed, enclosed, texts)
