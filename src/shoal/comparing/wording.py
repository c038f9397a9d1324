"""What stands under every table of a comparison."""

from __future__ import annotations

from shoal.comparing.parts import RISKS
from shoal.comparing.result import Comparison

_RISKS = (
    "Risks: of what would stay hidden, the share that an attack finds; 0 is no more than about people who are not in "
    "the data, 1 is everything. Yes, no and may not are the answers of the Article 29 Working Party's opinion to "
    "whether the risk remains."
)


def reading(found: Comparison) -> list[str]:
    """Return how to read the table, what was not tried, and whom it is about, a sentence or two each."""
    lines = [_RISKS, _kept(found)]
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


def _kept(found: Comparison) -> str:
    predicted = "" if found.predicted is None else f" of {found.predicted}"
    return (
        "Kept, 1 is as good as the source and 0 nothing: counts (random counting questions), association (dependence "
        f"between pairs of attributes), learning (predictions{predicted})."
    )
