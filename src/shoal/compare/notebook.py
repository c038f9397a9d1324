"""A comparison in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.compare.ranking import HEADS, MEASURES, RISKS
from shoal.compare.result import Comparison, Row
from shoal.core.wording import counted_text
from shoal.reports.notebook.page import folded, heading, output, paragraph, plots, table

if TYPE_CHECKING:
    from shoal.compare.ranking import Standing

_HOLDER = "These figures are for the data holder."


def comparison_html(found: Comparison) -> str:
    """Return the rows by rank with their risks and what they keep, the frontier, and what could not be made."""
    stands = found.standings()
    labels = found.labels
    ranked = sorted(stands, key=lambda place: stands[place].rank)
    others = [place for place, row in enumerate(found.rows) if row.reason is None and place not in stands]
    rows = [_cells(found.rows[place], labels[place], stands.get(place)) for place in (*ranked, *others)]
    refused = [(labels[place], row.reason) for place, row in enumerate(found.rows) if row.reason is not None]
    weights = ", ".join(f"{part} {weight:g}" for part, weight in found.used_weights().items())
    return output(
        heading(f"Comparison of {counted_text(len(found.rows), 'release')}"),
        paragraph(
            f"All are about the same {counted_text(found.records, 'record')}; each attack was tried "
            f"{found.targets:,} times." + (f" Weights of the ranking: {weights}." if weights else "")
        ),
        plots([found.frontier()] if stands else ()),
        table(
            "By rank: risks that attacks found, and what is kept",
            ("rank", "release", *(f"risk: {head}" for head in HEADS.values()), *MEASURES, "promise", "frontier"),
            rows,
        ),
        table("What could not be made", ("release", "reason"), refused),
        folded("Notes", *map(paragraph, found.notes)),
        paragraph(_HOLDER, "soft"),
    )


def _cells(row: Row, label: str, stand: Standing | None) -> tuple[str, ...]:
    trials = (row.trials(risk) for risk in RISKS)
    risks = ("–" if each is None else _percent(each.risk.value) for each in trials)
    kept = ("–" if (share := row.kept(measure)) is None else _percent(share) for measure in MEASURES)
    place = "–" if stand is None else "dominated" if stand.dominated_by else "yes"
    return ("–" if stand is None else str(stand.rank), label, *risks, *kept, row.promise, place)


def _percent(share: float) -> str:
    return f"{round(share, 3) + 0.0:.1%}"
