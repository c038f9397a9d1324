"""What a measured risk means, in words: the same ones wherever findings are shown."""

from __future__ import annotations

from shoal.attacks.base import Trials

CLEAR, GRAVE = 0.1, 0.5  # risks from which a finding is called so
LITTLE = 0.05  # a risk that is surely below this is called none


def verdict(trials: Trials) -> str:
    """Say what the risk that an attack found means.

    >>> from shoal.attacks.base import Tally
    >>> verdict(Trials("x", Tally(400, 1000), Tally(200, 1000))), verdict(Trials("x", Tally(0, 1000)))
    ('clear: 25% of what would stay hidden is found', 'nothing found')
    """
    risk = trials.risk
    if risk.low <= 0:
        return "nothing found" if risk.high <= LITTLE else f"nothing sure, at most {risk.high:.0%}"
    size = "grave" if risk.value >= GRAVE else "clear" if risk.value >= CLEAR else "slight"
    if trials.decides:
        return f"{size}: members are told from others, {risk.value:.0%} better than by chance"
    return f"{size}: {risk.value:.0%} of what would stay hidden is found"
