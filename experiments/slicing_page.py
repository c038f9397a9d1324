"""Figures 3 to 7 of the slicing paper as plots and tables, and the page that puts them beside the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from experiments.figures import Drawing, Panel, Report, Statement, format_csv
from experiments.slicing import FIVE, TWO, Matching, Result, TableResult
from experiments.slicing_learning import ALPHA, CLASSIFIERS, DRAWS, TARGETS, TECHNIQUES, Accuracy
from experiments.slicing_statements import (
    CLEAR,
    EDUCATION,
    OCCUPATION,
    WAYS,
    Comparisons,
    Way,
    judge_learning,
    judge_membership,
)
from experiments.slicing_tables import MANY_VALUES, N_BINS

_FAKES = """Distinct tuples that are not in the original data and match at least one bucket, all counted exactly. The
paper names its five columns, not its two: *c = 2* are those that clustering finds, *six QIs* two columns of the quasi
attributes alone that come near to the paper's numbers."""

NUMBERS = (3, 4, 5, 6, 7)
CATEGORIES = ("<= 10", "11-20", "> 20")
_ASKED = "distinct l-diversity; a missing point: no table of that technique meets the requirement"
_COUNTED = "random buckets; a missing point: none, or too many to count"
HEADINGS = {
    3: "Learning the sensitive attribute, Occupation",
    4: "Learning a quasi attribute, Education",
    5: "The number of columns, c",
    6: "The number of fake tuples",
    7: "The number of matching buckets",
}


def make_report(result: Result) -> Report:
    """Return the page, the figures and their data."""
    return Report(
        name="slicing",
        page=write_page(result),
        document={"paper": "slicing", **asdict(result)},
        summary=[
            f"{table.title}: {one.verdict}: {one.claim}{f' ({asked})' if asked else ''} {one.measured}"
            for table in result.tables
            for asked, one in judge_statements(table, result)
        ],
        drawings=list(drawings(result)),
        tables={f"slicing-figure-{number}": _figure_csv(number, result) for number in NUMBERS},
        whole=_whole_csv(result),
    )


def write_page(result: Result) -> str:
    """Return the page: what was run, each statement of the paper with its verdict, each figure with its data."""
    return "\n".join(_lines(result)).rstrip() + "\n"


def judge_statements(table: TableResult, result: Result) -> Iterator[tuple[str, Statement]]:
    """Yield every statement on one table, with what classifiers were asked about."""
    by_way = {title: judge_learning(table, result, way) for way, title in WAYS.items()}
    for row in zip(*by_way.values(), strict=True):
        yield from zip(by_way, row, strict=True)
    yield from (("", statement) for statement in judge_membership(table))


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
Figures 3 to 7. This page is written by `python -m experiments slicing --docs docs`, figures and verdicts alike; nothing
on it is typed by hand. A small grid of it (`figures/slicing-small.json`) is computed again by the tests."""

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
            for asked, one in judge_statements(table, result):
                if one.where == str(number):
                    yield f"| {number} | {one.claim} | {table.title} | {asked} | **{one.verdict}** | {one.measured} |"
    yield ""


def _figure(number: int, result: Result) -> Iterator[str]:
    figures = [drawing for drawing in drawings(result) if drawing.figure == str(number)]
    yield f"## Figure {number}: {HEADINGS[number]}"
    yield ""
    for drawing in figures:
        yield f"![{drawing.title}](figures/{drawing.stem}.svg)"
        yield ""
    yield from _data(number, result)


def drawings(result: Result) -> Iterator[Drawing]:
    """Yield the plots: those of Figures 3 to 5 for both ways of asking, Figure 5 for both targets."""
    for number, target in ((3, OCCUPATION), (4, EDUCATION), (5, OCCUPATION), (5, EDUCATION)):
        for way, asked in WAYS.items():
            stem = f"slicing-figure-{number}{'-' + target if number == 5 else ''}{'-unseen' if way == 'unseen' else ''}"
            title = f"Figure {number}: learning {target.title()}, asked about {asked}"
            panels = [
                _learning_panel(number, table, result, way, target, classifier)
                for table in result.tables
                for classifier in CLASSIFIERS
            ]
            yield Drawing(str(number), stem, title, _ASKED, panels, rows=len(result.tables))
    yield Drawing(
        "6", "slicing-figure-6", "Figure 6: fake tuples", _COUNTED, [_fakes(table) for table in result.tables], 1
    )
    panels = [_matching_panel(table, columns) for table in result.tables for columns in (TWO, FIVE)]
    yield Drawing("7", "slicing-figure-7", "Figure 7: matching buckets", _COUNTED, panels, len(result.tables))


def _learning_panel(number: int, table: TableResult, result: Result, way: Way, target: str, classifier: str) -> Panel:
    found = Comparisons(table, result, way)
    if number == 5:
        places = [f"c = {c}" for c in result.c]
        points = [(result.l[0], c) for c in result.c]
        x_title = f"number of columns of slicing, l = {result.l[0]}"
    else:
        places = [f"l = {l}" for l in result.l]
        points = [(l, result.c[0]) for l in result.l]
        x_title = f"distinct l-diversity, c = {result.c[0]}"
    lines: dict[str, Sequence[float | None]] = {
        technique: [found.value(technique, target, classifier, l, c) for l, c in points] for technique in TECHNIQUES
    }
    return Panel(f"{table.title}, {classifier}", x_title, "accuracy", places, lines)


def _fakes(table: TableResult) -> Panel:
    sizes = sorted({one.size for one in table.matchings})
    counted: dict[str, Sequence[float | None]] = {
        columns: [_find(table, columns, size).n_fakes for size in sizes]
        for columns in dict.fromkeys(one.columns for one in table.matchings)
    }
    # All panels begin with the same lines, so that one legend serves them.
    lines = {
        TWO: counted.pop(TWO),
        FIVE: counted.pop(FIVE),
        "original records": [table.records] * len(sizes),
        **counted,
    }
    places = [f"p = {size}" for size in sizes]
    return Panel(table.title, "records in a bucket, p", "fake tuples", places, lines, "log")


def _matching_panel(table: TableResult, columns: str) -> Panel:
    sizes = sorted({one.size for one in table.matchings})
    lines: dict[str, Sequence[float | None]] = {}
    for place, category in reversed(list(enumerate(CATEGORIES))):
        lines[f"originals {category}"] = [_find(table, columns, size).records[place] or None for size in sizes]
    for place, category in reversed(list(enumerate(CATEGORIES[1:], start=1))):
        found = [_find(table, columns, size).fakes for size in sizes]
        lines[f"fakes {category}"] = [None if fakes is None else fakes[place] or None for fakes in found]
    return Panel(
        f"{table.title}, {columns}",
        "records in a bucket, p",
        "tuples with so many matching buckets",
        [f"p = {size}" for size in sizes],
        lines,
        "log",
    )


def _find(table: TableResult, columns: str, size: int) -> Matching:
    return next(one for one in table.matchings if (one.columns, one.size) == (columns, size))


def _data(number: int, result: Result) -> Iterator[str]:
    """Yield the figure's data as tables of the page."""
    if number == 6:
        yield from _fakes_data(result)
    elif number == 7:
        yield from _matching_data(result)
    else:
        yield from _learning_data(number, result)


def _learning_data(number: int, result: Result) -> Iterator[str]:
    yield "Accuracy when asked about published rows / about unseen records; distinct l-diversity. A dash: not reached."
    yield ""
    targets = TARGETS if number == 5 else (OCCUPATION,) if number == 3 else (EDUCATION,)
    points = [(l, result.c[0]) for l in result.l] if number != 5 else [(result.l[0], c) for c in result.c]
    for table in result.tables:
        both = [Comparisons(table, result, way) for way in WAYS]
        yield f"| {table.title} | l | c of slicing | {' | '.join(TECHNIQUES)} |"
        yield "|---|---:|---:|" + "---:|" * len(TECHNIQUES)
        for target in targets:
            for classifier in CLASSIFIERS:
                for l, c in points:
                    cells = [
                        " / ".join(_decimal(found.value(technique, target, classifier, l, c)) for found in both)
                        for technique in TECHNIQUES
                    ]
                    yield f"| {target}, {classifier} | {l} | {c} | {' | '.join(cells)} |"
        yield ""


def _fakes_data(result: Result) -> Iterator[str]:
    yield from (
        _FAKES,
        "",
        "| table | columns | p | original records | distinct ones | fake tuples |",
        "|---|---|---:|---:|---:|---:|",
    )
    for table in result.tables:
        for one in table.matchings:
            counted = "too many to count" if one.n_fakes is None else f"{one.n_fakes:,}"
            yield (
                f"| {table.title} | {one.columns} | {one.size:,} | {one.n_records:,} | {one.originals:,} | {counted} |"
            )
    yield ""
    for table in result.tables:
        for columns in dict.fromkeys(one.columns for one in table.matchings):
            parts = next(one.parts for one in table.matchings if one.columns == columns)
            yield f"- {table.title}, {columns}: {'; '.join(', '.join(part) for part in parts)}."
    yield ""


def _matching_data(result: Result) -> Iterator[str]:
    heads = [f"{kind} {category}" for kind in ("records", "fakes") for category in CATEGORIES]
    yield "Original records, and distinct fake tuples, by their number of matching buckets."
    yield ""
    yield f"| table | columns | p | {' | '.join(heads)} |"
    yield "|---|---|---:|" + "---:|" * len(heads)
    for table in result.tables:
        for one in table.matchings:
            fakes = ["-"] * len(CATEGORIES) if one.fakes is None else [f"{number:,}" for number in one.fakes]
            records = [f"{number:,}" for number in one.records]
            yield f"| {table.title} | {one.columns} | {one.size:,} | {' | '.join([*records, *fakes])} |"
    yield ""


def _figure_csv(number: int, result: Result) -> str:
    """Return the figure's data as CSV."""
    if number in (6, 7):
        return _matchings_csv(result)
    wanted = {3: (OCCUPATION,), 4: (EDUCATION,), 5: TARGETS}[number]
    rows = []
    for table in result.tables:
        for one in table.accuracies:
            varied = one.l in (None, result.l[0]) if number == 5 else one.c in (None, result.c[0])
            if one.target in wanted and varied:
                rows.append(_accuracy(table, one))
    return format_csv([_ACCURACY, *rows])


def _whole_csv(result: Result) -> str:
    """Return every accuracy as CSV."""
    return format_csv([_ACCURACY, *(_accuracy(table, one) for table in result.tables for one in table.accuracies)])


_ACCURACY: list[object] = ["table", "technique", "l", "c", "target", "classifier", "own", "unseen"]


def _accuracy(table: TableResult, one: Accuracy) -> list[object]:
    return [table.name, one.technique, one.l, one.c, one.target, one.classifier, one.own, one.unseen]


def _matchings_csv(result: Result) -> str:
    heads = [f"{kind} {category}" for kind in ("records", "fakes") for category in CATEGORIES]
    rows: list[list[object]] = [["table", "columns", "p", "distinct originals", "fakes", *heads]]
    for table in result.tables:
        for one in table.matchings:
            fakes: list[object] = [None] * len(CATEGORIES) if one.fakes is None else list(one.fakes)
            rows.append([table.name, one.columns, one.size, one.originals, one.n_fakes, *one.records, *fakes])
    return format_csv(rows)


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
