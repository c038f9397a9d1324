"""A comparison as files: CSV, a page of Markdown or HTML, a picture, the frontier."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.comparing.html import html_page
from shoal.comparing.page import page
from shoal.comparing.picture import PICTURES, draw_comparison
from shoal.comparing.result import Comparison
from shoal.errors import UsageError
from shoal.papers.figures import require_plots
from shoal.release import refuse_existing, write_text


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files that are asked for; None for those that are not."""

    csv: Path | None = None
    picture: Path | None = None
    markdown: Path | None = None
    frontier: Path | None = None
    html: Path | None = None

    def check(self) -> None:
        """Refuse, before any work, files that exist and pictures that cannot be drawn."""
        for path in (self.csv, self.picture, self.markdown, self.frontier, self.html):
            if path is not None:
                refuse_existing(path)
                if not path.absolute().parent.is_dir():
                    raise UsageError(f"there is no folder {path.parent}")
        if self.picture is not None:
            if self.picture.suffix.lower() not in PICTURES:
                raise UsageError(f"a picture ends in {' or '.join(PICTURES)}, not in {self.picture.suffix!r}")
            require_plots()
        for path, suffixes in ((self.frontier, (".svg",)), (self.html, (".html", ".htm"))):
            if path is not None and path.suffix.lower() not in suffixes:
                raise UsageError(f"{path.name} must end in {suffixes[0]}")

    def write(self, found: Comparison, title: str) -> None:
        """Write what is asked for; the page shows the picture if there is one."""
        if self.csv is not None:
            write_text(self.csv, flat_csv(found))
        if self.picture is not None:
            with _drawn(self.picture):
                draw_comparison(found, title, self.picture)
        if self.markdown is not None:
            write_text(self.markdown, page(found, title, _beside(self.picture, self.markdown)))
        if self.frontier is not None:
            write_text(self.frontier, found.frontier().standalone())
        if self.html is not None:
            write_text(self.html, html_page(found, title))


def flat_csv(found: Comparison) -> str:
    """Return a line for each row, the same columns in all; empty where nothing was measured."""
    stands = found.standings()
    lines = [row.flat(stands.get(place)) for place, row in enumerate(found.rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _beside(picture: Path | None, page_file: Path) -> str | None:
    """Return how the page names the picture: from its own folder on."""
    if picture is None:
        return None
    return Path(os.path.relpath(picture.absolute(), page_file.absolute().parent)).as_posix()


@contextmanager
def _drawn(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path.name}: {error.strerror}") from None
