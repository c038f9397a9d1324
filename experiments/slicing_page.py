"""What the experiment leaves behind: plots, tables of figures, and a page that puts them beside the paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from experiments.slicing import Result, TableResult
from experiments.slicing_figures import HEADINGS, NUMBERS, data, drawings, figure_csv, whole_csv
from experiments.slicing_learning import ALPHA, DRAWS
from experiments.slicing_membership_statements import membership_statements
from experiments.slicing_statements import CLEAR, WAYS, learning_statements
from experiments.slicing_tables import MANY_VALUES, N_BINS
from experiments.writing import Statement, write_experiment


def write_result(result: Result, folder: Path) -> None:
    """Write the page, the figures and their data into a new folder."""
    write_experiment(
        folder,
        "slicing",
        drawings=drawings(result),
        tables={f"slicing-figure-{number}": figure_csv(number, result) for number in NUMBERS},
        whole=whole_csv(result),
        document=result.as_dict(),
        page=page(result),
    )


def page(result: Result) -> str:
    """Return the page: what was run, each statement of the paper with its verdict, each figure with its data."""
    return "\n".join(_lines(result)).rstrip() + "\n"


def statements(table: TableResult, result: Result) -> Iterator[tuple[str, Statement]]:
    """Yield every statement on one table, with what classifiers were asked about."""
    by_way = {title: learning_statements(table, result, way) for way, title in WAYS.items()}
    for row in zip(*by_way.values(), strict=True):
        yield from zip(by_way, row, strict=True)
    yield from (("", statement) for statement in membership_statements(table))


def _lines(result: Result) -> Iterator[str]:
    yield from (
        "# Slicing: the paper's experiments run again",
        "",
        _SOURCE,
        "",
    )
    if result.quick:
        yield from ("**A quick run** on a sample of the records and few settings: not for quoting.", "")
    yield from _what_was_run(result)
    yield from _reachable(result)
    yield from _statements(result)
    for number in NUMBERS:
        yield from _figure(number, result)


_SOURCE = """Li, Li, Zhang and Molloy, "Slicing: a new approach for privacy preserving data publishing", section 6,
Figures 3 to 7. This page is written by `shoal papers slicing`, figures and verdicts alike; nothing on it is typed by
hand."""

_TECHNIQUES = f"""Generalization is `mondrian`; slicing is `slicing` with c columns and alpha = {ALPHA}; bucketization
is `slicing` with alpha = 1 and two columns, all QIs and Occupation. With `cut_by: all` all three cut as Mondrian does.
Categories have the order of the alphabet, education that of its years, and numbers may be cut anywhere. Nothing is
withheld. Every release passed `verify` against its source.

Sliced and bucketized rows are re-linked by chance (`release.sample_table`), {DRAWS} times; folds take turns with the
draws. Of a generalized value the lower and the upper bound are learned from, as two attributes; where the target
itself is generalized, of which the paper says nothing, a value under its label is drawn. The tree splits by entropy,
has at least two records in a leaf and is pruned as C4.5 prunes; naive Bayes counts categories, and of numbers with
more than {MANY_VALUES} values {N_BINS} bins of about equally many records. What differs from Weka is told in decision
15 (`docs/adr/0015-learning.md`).

Accuracy is measured in two ways. *Published rows*: folds of the anonymized file itself, as in the paper. *Unseen
records*: some folds of the original table are anonymized by themselves, and the classifier is asked about original
records of the one left out. The first asks how well a release predicts itself: a generalized row tells, by the
bounds of its other attributes, which box it is from, and so what its own target may be, which no new person does. The
second asks what the release teaches about people."""

_EXACT = """In {} education-num tells education exactly, so that a technique which keeps both in one column, or a table
that links them, lets a tree be right always."""

_MODEL = """The paper takes l = {} with its Definition 7, p(t,s) <= 1/l. With Occupation beside the attribute that goes
best with it, even one single bucket does not give that; the most that it gives is below. Every figure here is
therefore about **distinct l-diversity**, of which the same l can be reached."""

_BUCKETS = """The columns that were found, and the buckets. That slicing keeps sex beside occupation matters only in
buckets that hold both sexes; where Mondrian has cut by sex, as it may in bucketization too, the bucket tells it
anyway."""

_BETTER = f"""*Clearly* ahead or behind means by more than {CLEAR:g} standard errors of the difference of two
accuracies; an accuracy on {{:,}} records has one of at most {{:.2%}}. Better, in the paper's statements, is read as
clearly ahead."""


def _what_was_run(result: Result) -> Iterator[str]:
    yield from ("## What was run", "")
    for table in result.tables:
        guess = ", ".join(f"{share:.1%} for {target}" for target, share in table.commonest.items())
        yield (
            f"- **{table.title}**, {table.records:,} records of Adult without missing values: "
            f"{', '.join(table.attributes)}. Occupation is sensitive, the others are QIs. Naming the commonest value "
            f"always is right in {guess}."
        )
    yield from ("", _TECHNIQUES, "")
    for table in result.tables:
        if {"education", "education-num"} <= set(table.attributes):
            yield from (_EXACT.format(table.title), "")


def _reachable(result: Result) -> Iterator[str]:
    listed = ", ".join(str(l) for l in result.l)
    yield from (
        "## Which l-diversity",
        "",
        _MODEL.format(listed),
        "",
        "| table | beside Occupation | largest l of Definition 7 | of distinct values | of exp(entropy) |",
        "|---|---|---:|---:|---:|",
    )
    for table in result.tables:
        for most in table.reachable:
            known = ", ".join(most.known) or "nothing (bucketization, generalization)"
            yield f"| {table.title} | {known} | {most.simple} | {most.distinct} | {most.entropy:.2f} |"
    yield from ("", _BUCKETS, "")
    yield "| table | technique | l | c | columns | buckets | records in buckets of both sexes |"
    yield "|---|---|---:|---:|---|---:|---:|"
    for table in result.tables:
        for one in table.slices:
            columns = "; ".join(", ".join(part) for part in one.parts)
            shown = (table.title, one.technique, one.l, one.c, columns, f"{one.buckets:,}", f"{one.mixed:.1%}")
            yield f"| {' | '.join(map(str, shown))} |"
    yield ""


def _statements(result: Result) -> Iterator[str]:
    n_records = min(table.records for table in result.tables)
    yield from (
        "## The paper's statements",
        "",
        _BETTER.format(n_records, 0.5 / n_records**0.5),
        "",
        "| figure | the paper says | table | asked about | verdict | measured |",
        "|---|---|---|---|---|---|",
    )
    for number in NUMBERS:
        for table in result.tables:
            for asked, one in statements(table, result):
                if one.figure == number:
                    yield f"| {number} | {one.claim} | {table.title} | {asked} | **{one.verdict}** | {one.measured} |"
    yield ""


def _figure(number: int, result: Result) -> Iterator[str]:
    figures = [drawing for drawing in drawings(result) if drawing.figure == str(number)]
    yield f"## Figure {number}: {HEADINGS[number]}"
    yield ""
    for drawing in figures:
        yield f"![{drawing.title}](figures/{drawing.stem}.svg)"
        yield ""
    yield from data(number, result)
