"""What stands under every table of a comparison."""

from __future__ import annotations

from shoal.compare.ranking import RISKS, Standing
from shoal.compare.result import Comparison
from shoal.core.wording import listed

_RISKS = (
    "Risks: of what would stay hidden, the share that an attack finds; 0 is no more than about people who are not in "
    "the data, 1 is everything."
)
_OPINION = " Yes, no and may not are the answers of the Article 29 Working Party's opinion to whether the risk remains."


def reading(found: Comparison) -> list[str]:
    """Return how to read the table, what was not tried, and whom it is about, a sentence or two each."""
    lines = [_RISKS + ("" if found.of_policies else _OPINION), _kept(found), *ranking(found)]
    refused = {
        f"{row.name}, {risk}: {row.risks[risk].as_dict()['refused']}."
        for row in found.rows
        for risk in RISKS
        if risk in row.risks and row.trials(risk) is None
    }
    lines += sorted(refused)
    lines += sorted(
        {
            f"{measure}: {score.reason}."
            for row in found.rows
            for measure, score in row.utility.items()
            if score.reason is not None
        }
    )
    return lines + [f"{note[0].upper()}{note[1:]}." for note in found.notes]


def ranking(found: Comparison) -> list[str]:
    """Return how rows are ranked, and which could not be."""
    stands, used = found.standings(), found.used_weights()
    made = [place for place, row in enumerate(found.rows) if row.reason is None]
    if len(made) < 2:
        return []
    if not stands:
        return ["There is no ranking: it needs a risk and something kept that were measured."]
    weights = ", ".join(f"{part} {weight:g}" for part, weight in used.items())
    how = (
        f"Score: the mean of 1 less each risk and of what is kept, by the weights {weights}. Dominated: another row "
        "has no more risk and keeps no less, by the measured values; clearly, if its risk's interval lies wholly below."
    )
    lines = [how]
    labels = found.labels
    for place in made:
        if place not in stands:
            row = found.rows[place]
            gone = [part for part in used if row.trials(part) is None and row.kept(part) is None]
            lines.append(f"{labels[place]} has no rank, for {listed(gone)} could not be measured there as elsewhere.")
    return lines


def standing_text(stand: Standing | None) -> str:
    """Return where a row stands, in a few words."""
    if stand is None:
        return "no rank"
    if not stand.dominated_by:
        return "on the frontier"
    more = f" and {len(stand.dominated_by) - 1} more" if len(stand.dominated_by) > 1 else ""
    clearly = "" if stand.clearly else ", not clearly"
    return f"dominated by {stand.dominated_by[0]}{more}{clearly}"


def _kept(found: Comparison) -> str:
    predicted = "" if found.predicted is None else f" of {found.predicted}"
    return (
        "Kept, 1 is as good as the source and 0 nothing: counts (random counting questions), association (dependence "
        f"between pairs of attributes), learning (predictions{predicted})."
    )
