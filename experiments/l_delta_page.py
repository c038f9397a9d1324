"""What the experiment leaves behind: plots, tables of figures, and a page that puts them beside the paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from experiments.l_delta import FIGURES, Result
from experiments.l_delta_figures import FAILURES, LINKED, NAMES, data, drawings, figure_csv, heading, stem, whole_csv
from experiments.l_delta_settings import DOMAIN, N_QUASI, N_VALUES, RATIO
from experiments.l_delta_statements import SURE, findings
from experiments.writing import write_experiment


def write_result(result: Result, folder: Path) -> None:
    """Write the page, the figures and their data into a new folder."""
    write_experiment(
        folder,
        "l-delta",
        drawings=drawings(result),
        tables={stem(name): figure_csv(name, result) for name in NAMES},
        whole=whole_csv(result),
        document=result.as_dict(),
        page=page(result),
    )


def page(result: Result) -> str:
    """Return the page: what was run, each statement with its verdict, each figure with its data."""
    return "\n".join(_lines(result)).rstrip() + "\n"


_SOURCE = """Rameshwar and Tandon, "(l,delta)-diversity: linkage-robustness via a composition theorem", section 5,
Figures 1 and 2, and what these do not show. This page is written by `shoal papers l-delta`, figures and verdicts alike;
nothing on it is typed by hand."""

_SETTING = f"""{N_QUASI:,} quasi-identifiers ({", ".join(f"{name} {size}" for name, size in DOMAIN.items())}),
{N_VALUES} diseases, uniform or geometric with ratio {float(RATIO)}; p = beta p_l. N is rounded up. The paper's N needs
only the chances of the diseases; the tighter N and the simulations need the joint distribution, for which
quasi-identifiers are taken as equally likely and independent of the disease. The classes are those of Algorithm 3 with
its class size rounded up: with beta = 0.01 there are 100, of 30 quasi-identifiers each, for every l.

The tighter N is the least with which the sum of (1 - P(class, s))^N, over the classes and the l likeliest diseases of
each, is at most delta: the union bound of Theorem 4.4 before its terms are replaced by the largest, and the number of
classes by m."""

_SIMULATED = """{trials:,} times, three independent releases were drawn for each marginal and each beta. A release fails
if one of its classes has fewer than l diseases, linked releases if fewer than l diseases are in all of a class's
histograms; an empty class counts as failed. Samples are not cut off at some N: for each, the number of records from
which on it never fails is found, exactly, so that one simulation serves every N, l and delta. l = {most}, all diseases,
is ours: there the union bound is nearly sharp, while with smaller l other diseases stand in for a missing one."""

_OWNERS = """Three owners have samples of {records}, with {people:,} people in
common; this is drawn {repetitions}. Each makes its table distinct-l-diverse by itself with `mondrian`, which cuts as
fine as its own sample allows. An adversary who knows that a person is in all tables keeps the diseases that are in that
person's class everywhere. Beside it the same records in the agency's classes. These are far fewer, so each owner also
cuts its table into boxes of its own that are about as coarse, with at least half the records of an agency's class in
each: what is lost by linking fine classes is told apart from what is lost by making classes from one's own sample."""

_FAILURES = """In brackets Wilson intervals of 95%. t releases may fail with a probability of t delta."""

_LINKED = """Of one release / two linked / three linked. Shares are of the people that all owners have in common. *Worst
case* is the least that Proposition 3.1 allows any linkage to leave. With fewer than N records the agency's owners
publish nothing."""


def _lines(result: Result) -> Iterator[str]:
    yield from ("# (l,delta)-diversity: the paper's figures, and simulations beside its bounds", "", _SOURCE, "")
    if result.quick:
        yield from ("**A quick run** with few simulated releases: not for quoting.", "")
    yield from _what_was_run(result)
    yield from _statements(result)
    for drawing in drawings(result):
        yield from (f"## {heading(drawing.figure)}", "", f"![{drawing.title}](figures/{drawing.stem}.svg)", "")
        if drawing.figure not in FIGURES:
            yield from ({FAILURES: _FAILURES, LINKED: _LINKED}[drawing.figure], "")
        yield from data(drawing.figure, result)


def _what_was_run(result: Result) -> Iterator[str]:
    first = result.linkages[0]
    shares = ", ".join(f"{share:g}" for share in sorted({one.share for one in result.linkages}))
    yield from ("## What was run", "", _SETTING, "")
    yield from (_SIMULATED.format(trials=result.failures[0].trials, most=max(one.l for one in result.failures)), "")
    told = {
        "records": f"{shares} times the paper's N for delta = 0.01",
        "people": first.people // first.repetitions,
        "repetitions": "once" if first.repetitions == 1 else f"{first.repetitions} times",
    }
    yield from (_OWNERS.format(**told), "")


def _statements(result: Result) -> Iterator[str]:
    yield from (
        "## Statements",
        "",
        f"A simulated rate speaks against a bound only if its interval of {SURE:.1%} lies above it.",
        "",
        "| where | statement | verdict | measured |",
        "|---|---|---|---|",
    )
    for one in findings(result):
        yield f"| {one.where} | {one.claim} | **{one.verdict}** | {one.measured} |"
    yield ""
