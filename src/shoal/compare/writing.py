"""The output of a comparison: CSV, a page of Markdown or HTML, the frontier, and a notebook's output."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from shoal.compare.result import HEADS, KEPT, RISKS, SCORES, Comparison, Row, Standing, share_text
from shoal.core.errors import UsageError
from shoal.core.wording import count_noun, join_words, percent, write_kept
from shoal.release.release import refuse_existing, write_text
from shoal.reports.plots import plot_style
from shoal.reports.templates import render

_RISKS = (
    "Risks: the share of the guesses wrong by chance that the attack gets right; at 0 it does as well on people who "
    "are not in the data."
)
_OPINION = " Yes, no and may not: whether the risk remains, according to the Article 29 Working Party's opinion."
SUFFIXES = {"frontier": (".svg",), "html": (".html", ".htm")}  # of files by their option


@dataclass(frozen=True, slots=True)
class Wanted:
    csv: Path | None = None
    markdown: Path | None = None
    frontier: Path | None = None
    html: Path | None = None

    def check(self) -> None:
        """Refuse existing files and wrong suffixes before any work."""
        for name, path in asdict(self).items():
            if path is None:
                continue
            refuse_existing(path)
            if not path.absolute().parent.is_dir():
                raise UsageError(f"the folder {path.parent} does not exist; create it first")
            if name in SUFFIXES and path.suffix.lower() not in SUFFIXES[name]:
                raise UsageError(f"{path.name} must end in {' or '.join(SUFFIXES[name])}")

    def write(self, found: Comparison, title: str) -> None:
        """Write the files; the page of Markdown shows the frontier if that is also written."""
        if self.csv is not None:
            write_text(self.csv, flat_csv(found))
        if self.markdown is not None:
            folder = self.markdown.absolute().parent  # the page's link to the picture is relative to it
            picture = None if self.frontier is None else os.path.relpath(self.frontier.absolute(), folder)
            write_text(self.markdown, markdown_page(found, title, picture))
        if self.frontier is not None:
            write_text(self.frontier, found.frontier().standalone())
        if self.html is not None:
            ranked = _rank(found)
            others = [place for place, row in enumerate(found.rows) if row.reason is None and place not in ranked]
            content = _describe(found, [*ranked, *others], ("; the opinion: {}", None))
            write_text(self.html, str(render("comparison.html", **content, title=title, plot_style=plot_style())))


def flat_csv(found: Comparison) -> str:
    """Return one line for each row; all rows have the same columns, which are empty if nothing was measured."""
    stands = found.standings()
    lines = [row.flat(stands.get(place)) for place, row in enumerate(found.rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown_page(found: Comparison, title: str, picture: str | None = None, *before: str) -> str:
    """Return a page of Markdown: tables of risks and utility, the ranking, and the releases that could not be made."""
    made = [place for place, row in enumerate(found.rows) if row.reason is None]
    content = _describe(found, made, (" [{}]", "not rated"))
    return str(render("comparison.md", **content, title=title, picture=picture, before=before))


def notebook_output(found: Comparison) -> str:
    """Return the rows by rank with their risks and utility, the frontier, and the releases that could not be made."""
    from shoal.reports.notebook import render_output

    stands, labels, ranked = found.standings(), found.labels, _rank(found)
    others = [place for place, row in enumerate(found.rows) if row.reason is None and place not in stands]
    return render_output(
        "notebook_comparison.html",
        found=found,
        weights=", ".join(f"{part} {weight:g}" for part, weight in found.list_weights().items()),
        plot=found.frontier() if stands else None,
        heads=["rank", "release", *(f"risk: {head}" for head in HEADS.values()), KEPT, "promise", "frontier"],
        rows=[_notebook_cells(found.rows[place], labels[place], stands.get(place)) for place in (*ranked, *others)],
        refused=[(label, row.reason) for label, row in zip(labels, found.rows, strict=True) if row.reason is not None],
    )


def _rank(found: Comparison) -> list[int]:
    stands = found.standings()
    return sorted(stands, key=lambda place: stands[place].rank)


def _describe(found: Comparison, made: list[int], opinion: tuple[str, str | None]) -> dict[str, object]:
    """Return the content of both pages; *made* has the places of the rows in order, *opinion* the text for it."""
    stands, labels = found.standings(), found.labels
    seed = "without a seed" if found.seed is None else f"with the seed {found.seed}"
    rows = [found.rows[place] for place in made]
    return {
        "found": found,
        "about": (
            f"All releases are about the same {count_noun(found.records, 'record')}; each attack was tried "
            f"{found.targets:,} times, {seed}."
        ),
        "heads": list(HEADS.values()),
        "measures": list(SCORES),
        "ranking": [
            [
                str(stand.rank),
                labels[place],
                share_text(stand.score),
                share_text(stand.risk.value),
                percent(round(stand.kept, 3)),
                standing_text(stand),
            ]
            for place, stand in ((place, stands[place]) for place in _rank(found))
        ],
        "risks": [
            [row.name, row.parameters, *(_risk_text(row, risk, *opinion) for risk in RISKS), row.promise]
            for row in rows
        ],
        "kept": [
            [
                row.name,
                row.parameters,
                *("–" if row.kept is None else write_kept(getattr(row.kept, name)) for name in SCORES.values()),
                f"{row.records:,}",
                f"{row.seconds:.1f}",
            ]
            for row in rows
        ],
        "refused": [row for row in found.rows if row.reason is not None],
        "reading": reading(found),
    }


def _risk_text(row: Row, risk: str, opinion: str, unrated: str | None = None) -> str:
    """Return a risk with its interval and the opinion's answer; *unrated* replaces a missing answer."""
    trials, said = row.trials(risk), row.opinion(risk) or unrated
    ending = "" if said is None or (trials is None and unrated is None) else opinion.format(said)
    if trials is None:
        return f"not tried{ending}"
    value, low, high = map(share_text, (trials.risk.value, trials.risk.low, trials.risk.high))
    return f"{value} ({low} to {high}){ending}"


def _notebook_cells(row: Row, label: str, stand: Standing | None) -> tuple[str, ...]:
    trials = (row.trials(risk) for risk in RISKS)
    risks = ("–" if each is None else percent(round(each.risk.value, 3)) for each in trials)
    kept = "–" if row.kept is None else write_kept(row.kept.release)
    place = "–" if stand is None else "dominated" if stand.dominated_by else "yes"
    return ("–" if stand is None else str(stand.rank), label, *risks, kept, row.promise, place)


def reading(found: Comparison) -> list[str]:
    """Return the explanation of the tables: the figures, the attacks that were not tried, and the control group."""
    scored = next((row.kept for row in found.rows if row.kept is not None), None)
    kept = "Utility was not measured, because no column is quasi or sensitive in every policy."
    if scored is not None:
        kept = (
            f"Kept (marginals): how close tables of {count_noun(scored.size, 'column')} are to the source; 100% means "
            f"equal. Columns shuffled independently would keep {write_kept(scored.shuffled)}, a fresh sample "
            f"{write_kept(scored.fresh)}."
        )
    refused = {
        f"{row.name}, {risk}: {row.risks[risk].as_dict()['refused']}."
        for row in found.rows
        for risk in RISKS
        if risk in row.risks and row.trials(risk) is None
    }
    lines = [_RISKS + ("" if found.of_policies else _OPINION), kept, *ranking(found)]
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    return [*lines, *sorted(refused), *notes]


def ranking(found: Comparison) -> list[str]:
    """Return how rows are ranked, and which have no rank."""
    stands, used = found.standings(), found.list_weights()
    made = [place for place, row in enumerate(found.rows) if row.reason is None]
    if len(made) < 2:
        return []
    if not stands:
        return ["The releases are not ranked, because none has both a risk and a utility."]
    weights = ", ".join(f"{part} {weight:g}" for part, weight in used.items())
    how = (
        f"Score: the mean of 1 minus the risk and of the utility, by the weights {weights}. The risk is the larger of "
        "the identity and attribute risks of the decision record. A release above the threshold (50% if the policy "
        "states none), or below shuffled columns, is never first. Dominated: another row has no more risk and keeps "
        "no less, by the measured values, and promises something if this one does; clearly, if its risk's interval "
        "lies wholly below."
    )
    lines = [how]
    for place in made:
        if place not in stands:
            row = found.rows[place]
            gone = [part for part in used if row.estimate(part) is None]
            lines.append(f"{found.labels[place]} has no rank, because {join_words(gone)} could not be measured there.")
    return lines


def standing_text(stand: Standing | None) -> str:
    if stand is None:
        return "no rank"
    if stand.bar is not None:
        return f"never first: {stand.bar}"
    if not stand.dominated_by:
        return "on the frontier"
    more = f" and {len(stand.dominated_by) - 1} more" if len(stand.dominated_by) > 1 else ""
    clearly = "" if stand.clearly else ", not clearly"
    return f"dominated by {stand.dominated_by[0]}{more}{clearly}"
