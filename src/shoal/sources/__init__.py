"""Sources of records, and writers that leak nothing: see ``docs/sources.md``."""

from __future__ import annotations

from shoal.sources.addresses import DatabaseTable
from shoal.sources.base import Source
from shoal.sources.delivery import write_table
from shoal.sources.frames import like
from shoal.sources.opening import open_source
from shoal.sources.options import CsvStyle, SourceOptions
from shoal.sources.writers import TableWriter, open_writer

__all__ = [
    "CsvStyle",
    "DatabaseTable",
    "Source",
    "SourceOptions",
    "TableWriter",
    "like",
    "open_source",
    "open_writer",
    "write_table",
]
