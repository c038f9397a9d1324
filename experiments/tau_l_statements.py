"""What Tian and Zhang found, statement by statement, beside what was measured here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.tau_l import CLD, ONE_D, SWEEP, Outcome, TableResult
from experiments.writing import Statement, Verdict, verdict_of

_RIVALS = (CLD, ONE_D)
_EQUAL = 1e-9


def statements(table: TableResult) -> list[Statement]:
    """Judge every statement of section IV on one table."""
    judges = (
        _all_reached,
        _some_not_reached,
        _less_excess,
        _more_um_than_rivals,
        _one_d_above_cld,
        _more_accurate,
        _below_three_times,
        _below_cld,
        _grows_linearly,
    )
    return [judge(table) for judge in judges]


def _all_reached(table: TableResult) -> Statement:
    reached = [outcome.reached for outcome in table.of(SWEEP)]
    return Statement(
        5,
        "SWEEP gives a table for every requirement.",
        verdict_of(sum(reached), len(reached)),
        f"SWEEP reaches {sum(reached)} of {len(reached)} requirements.",
    )


def _some_not_reached(table: TableResult) -> Statement:
    texts, missed = [], []
    for name in _RIVALS:
        outcomes = table.of(name)
        reached = [outcome for outcome in outcomes if outcome.reached]
        missed.append(len(outcomes) - len(reached))
        last = f", the strongest of them ({reached[-1].tau:g}, {reached[-1].l})" if reached else ""
        texts.append(f"{name} reaches {len(reached)} of {len(outcomes)}{last}")
    return Statement(
        5,
        "Some requirements cannot be reached by CLD and 1DLD.",
        verdict_of(sum(count > 0 for count in missed), len(missed)),
        "; ".join(texts) + ".",
    )


def _less_excess(table: TableResult) -> Statement:
    claim = "Where all three give a table, SWEEP protects much less beyond need."
    return _compared(table, 5, claim, "excessive protection", lambda o: o.excessive_protection, higher=False)


def _more_um_than_rivals(table: TableResult) -> Statement:
    claim = "SWEEP often keeps much more information (um)."
    return _compared(table, 6, claim, "um", lambda o: o.um, needed=0.5)


def _one_d_above_cld(table: TableResult) -> Statement:
    pairs = [
        (_value(one.um), _value(cld.um))
        for one, cld in zip(table.of(ONE_D), table.of(CLD), strict=True)
        if one.reached and cld.reached
    ]
    wins = sum(one > cld for one, cld in pairs)
    measured = f"1DLD is above CLD in {wins} of {len(pairs)}."
    if pairs:
        measured += f" Mean um: {np.mean([p[0] for p in pairs]):.3f} against {np.mean([p[1] for p in pairs]):.3f}."
    return Statement(6, "1DLD keeps more information than CLD.", verdict_of(wins, len(pairs)), measured)


def _more_accurate(table: TableResult) -> Statement:
    claim = "Trees that learn from SWEEP's tables are more accurate."
    return _compared(table, 7, claim, "accuracy ratio", lambda o: o.accuracy_ratio)


def _below_three_times(table: TableResult) -> Statement:
    ratios = [_value(sweep.seconds) / _value(rivals[1].seconds) for sweep, rivals in _eligible_to_all(table)]
    wins = sum(ratio < 3 for ratio in ratios)
    measured = f"{wins} of {len(ratios)} below."
    if ratios:
        measured += f" The ratio runs from {min(ratios):.2f} to {max(ratios):.2f}."
    claim = "Where all three give a table, SWEEP takes less than three times as long as 1DLD's search."
    return Statement(8, claim, verdict_of(wins, len(ratios)), measured)


def _below_cld(table: TableResult) -> Statement:
    pairs = _eligible_to_all(table)
    wins = sum(_value(sweep.seconds) < _value(rivals[0].seconds) for sweep, rivals in pairs)
    alone = sum(_value(sweep.seconds) < _value(rivals[0].seconds_of_table) for sweep, rivals in pairs)
    return Statement(
        8,
        "SWEEP always takes less than CLD's search.",
        verdict_of(wins, len(pairs)),
        f"{wins} of {len(pairs)}. Against the one run of CLD that made its table, without the search: {alone}.",
    )


def _grows_linearly(table: TableResult) -> Statement:
    rivals = [table.of(name) for name in _RIVALS]
    seconds = [
        _value(sweep.seconds)
        for i, sweep in enumerate(table.of(SWEEP))
        if sweep.reached and not any(outcomes[i].reached for outcomes in rivals)
    ]
    claim = "Where only SWEEP gives a table, its time grows linearly from one requirement to the next."
    if len(seconds) < 3:
        return Statement(8, claim, "not tested", f"Such requirements: {len(seconds)}, too few for a line.")
    places = np.arange(len(seconds))
    slope, start = np.polyfit(places, seconds, 1)
    spread = float(np.var(seconds))
    fit = 1 - float(np.mean((seconds - (slope * places + start)) ** 2)) / spread if spread > 0 else 0.0
    verdict: Verdict = "holds" if slope > 0 and fit >= 0.8 else "does not hold"
    listed = ", ".join(f"{value:.3f}" for value in seconds)
    return Statement(8, claim, verdict, f"Seconds: {listed}; slope {slope:+.4f}, R² of a line {fit:.2f}.")


def _compared(
    table: TableResult,
    figure: int,
    claim: str,
    what: str,
    value: Callable[[Outcome], float | None],
    *,
    higher: bool = True,
    needed: float = 1.0,
) -> Statement:
    """Compare SWEEP with each rival where all three give a table; equal is not better.

    The claim holds if SWEEP is better in the *needed* share of comparisons: all, unless the paper says "often".
    """
    everything = [[value(outcome) for outcome in (sweep, *rivals)] for sweep, rivals in _eligible_to_all(table)]
    figures = np.array([row for row in everything if None not in row], dtype=np.float64)
    if not len(figures):
        return Statement(figure, claim, "not tested", "No requirement is reached by all three.")
    ahead = (figures[:, :1] - figures[:, 1:]) * (1 if higher else -1) > _EQUAL  # (n_requirements, n_rivals)
    counts = " and ".join(f"better than {name} in {ahead[:, i].sum()}" for i, name in enumerate(_RIVALS))
    means = ", ".join(f"{name} {mean:.3f}" for name, mean in zip((SWEEP, *_RIVALS), figures.mean(axis=0), strict=True))
    measured = f"Of {len(figures)} that all three reach SWEEP is {counts}. Mean {what}: {means}."
    return Statement(figure, claim, verdict_of(int(ahead.sum()), ahead.size, needed), measured)


def _eligible_to_all(table: TableResult) -> list[tuple[Outcome, tuple[Outcome, ...]]]:
    """Return SWEEP's outcome and those of CLD and 1DLD, where all three give a table."""
    together = zip(table.of(SWEEP), *(table.of(name) for name in _RIVALS), strict=True)
    return [(sweep, tuple(rivals)) for sweep, *rivals in together if sweep.reached and all(r.reached for r in rivals)]


def _value(figure: float | None) -> float:
    if figure is None:
        raise ValueError("an outcome without a table has no figures")
    return figure
