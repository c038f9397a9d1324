"""A comparison as files: CSV, a page of Markdown or HTML, a picture, the frontier."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.compare.page import page
from shoal.compare.picture import PICTURES, draw_comparison, require_plots
from shoal.compare.ranking import HEADS, MEASURES, RISKS, Standing
from shoal.compare.result import Comparison, Row, share_text
from shoal.compare.wording import reading, standing_text
from shoal.core.errors import UsageError
from shoal.core.wording import counted_text
from shoal.release.release import refuse_existing, write_text
from shoal.reports.frame import Section, whole_page
from shoal.reports.html import Html, bullets, figure, joined, paragraph, table, tag

_HOLDER = "For the data holder alone: risks that attacks found on these people. It is no part of any release."


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


def html_page(found: Comparison, title: str) -> str:
    """Return the ranking, the frontier, every measured figure, what could not be made, and how to read it."""
    stands = found.standings()
    made = [place for place, row in enumerate(found.rows) if row.reason is None]
    order = sorted(made, key=lambda place: (place not in stands, stands[place].rank if place in stands else 0))
    seed = "without a seed" if found.seed is None else f"with the seed {found.seed}"
    about = (
        f"All releases are about the same {counted_text(found.records, 'record')}; each attack was tried "
        f"{found.targets:,} times, {seed}."
    )
    sections = [Section.of("ranking", "Ranking", paragraph(about), *_ranking(found, stands, order))]
    if made:
        sections.append(Section.of("figures", "Risks, and what is kept", *_figures(found, order)))
    refused = [(found.labels[place], row.reason) for place, row in enumerate(found.rows) if row.reason is not None]
    if refused:
        reasons = (joined((tag("strong", label), f": {reason}.")) for label, reason in refused)
        sections.append(Section.of("refused", "What could not be made", bullets(reasons)))
    sections.append(Section.of("reading", "Reading it", bullets(reading(found))))
    return whole_page(title, _HOLDER, sections)


def _ranking(found: Comparison, stands: dict[int, Standing], order: list[int]) -> list[Html]:
    if not stands:
        return [paragraph("Nothing could be ranked.")]
    rows = [
        (
            found.labels[place],
            str(stands[place].rank),
            *(share_text(each) for each in (stands[place].score, stands[place].risk.value, stands[place].kept)),
            standing_text(stands[place]),
        )
        for place in order
        if place in stands
    ]
    heads = ("release", "rank", "score", "risk", "kept", "frontier")
    return [figure(found.frontier()), table("Rows by their score", heads, rows)]


def _figures(found: Comparison, order: list[int]) -> list[Html]:
    risks = [
        (
            found.labels[place],
            found.rows[place].parameters,
            *(_risk(found.rows[place], risk) for risk in RISKS),
            found.rows[place].promise,
        )
        for place in order
    ]
    kept = [
        (
            found.labels[place],
            *(_share(found.rows[place].kept(measure)) for measure in MEASURES),
            f"{found.rows[place].records:,}",
            f"{found.rows[place].seconds:.1f}",
        )
        for place in order
    ]
    return [
        table("What is left to attacks", ("release", "parameters", *HEADS.values(), "promise"), risks),
        table("What is kept, and what it takes", ("release", *MEASURES, "records", "seconds"), kept),
    ]


def _risk(row: Row, risk: str) -> str:
    trials, said = row.trials(risk), row.opinion(risk)
    if trials is None:
        return "not tried"
    value, low, high = map(share_text, (trials.risk.value, trials.risk.low, trials.risk.high))
    return f"{value} ({low} to {high})" + (f"; the opinion: {said}" if said else "")


def _share(kept: float | None) -> str:
    return "\N{EN DASH}" if kept is None else share_text(kept)
