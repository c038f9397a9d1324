"""A comparison as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.compare.ranking import HEADS, MEASURES, RISKS, Standing
from shoal.compare.result import Comparison, Row, share_text
from shoal.compare.wording import reading, standing_text


def page(found: Comparison, title: str, picture: str | None = None, before: Sequence[str] = ()) -> str:
    """Return the page: a table of risks, one of what is kept, and what was not possible."""
    lines = [f"# {title}", "", *before]
    seed = "without a seed" if found.seed is None else f"with the seed {found.seed}"
    tried = f"each attack was tried {found.targets:,} times, {seed}"
    lines += [f"All releases are about the same {found.records:,} records; {tried}.", ""]
    if picture is not None:
        lines += [f"![Risks and what is kept, technique by technique]({picture})", ""]
    made = [row for row in found.rows if row.reason is None]
    lines += ["## What is left to attacks", ""]
    lines += _table(
        ["technique", "parameters", *HEADS.values(), "promise"],
        [[row.name, row.parameters, *(_risk(row, risk) for risk in RISKS), row.promise] for row in made],
    )
    lines += ["In brackets: whether the risk remains, by the opinion.", ""]
    lines += ["## What is kept, and what it takes", ""]
    lines += _table(
        ["technique", "parameters", *MEASURES, "records", "seconds"],
        [
            [
                row.name,
                row.parameters,
                *("-" if (kept := row.kept(measure)) is None else share_text(kept) for measure in MEASURES),
                f"{row.records:,}",
                f"{row.seconds:.1f}",
            ]
            for row in made
        ],
    )
    stands = found.standings()
    if len(stands) > 1:
        best = sorted(stands, key=lambda place: stands[place].rank)
        lines += ["## Ranking", ""]
        lines += _table(
            ["rank", "release", "score", "risk", "kept", "frontier"],
            [_ranked(found.labels[place], stands[place]) for place in best],
        )
    refused = [row for row in found.rows if row.reason is not None]
    if refused:
        lines += ["## What could not be made", ""]
        lines += [f"- **{row.name}**{_of(row)}: {row.reason}." for row in refused]
        lines.append("")
    lines += ["## Reading it", "", *(f"- {line}" for line in reading(found)), ""]
    return "\n".join(lines)


def _ranked(label: str, stand: Standing) -> list[str]:
    figures = [share_text(each) for each in (stand.score, stand.risk.value, stand.kept)]
    return [str(stand.rank), label, *figures, standing_text(stand)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return ["Nothing.", ""]
    lines = [heads, ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _of(row: Row) -> str:
    return f", {row.parameters}" if row.parameters else ""


def _risk(row: Row, risk: str) -> str:
    trials = row.trials(risk)
    said = f" [{row.opinion(risk) or 'not rated'}]"
    if trials is None:
        return f"not tried{said}"
    value, low, high = map(share_text, (trials.risk.value, trials.risk.low, trials.risk.high))
    return f"{value} ({low} to {high}){said}"
