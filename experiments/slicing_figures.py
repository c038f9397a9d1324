"""Figures 3 to 7 of the slicing paper as plots, as tables of the page and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from experiments.figures import Drawing, Panel
from experiments.slicing import Result, TableResult
from experiments.slicing_learning import CLASSIFIERS, TARGETS, TECHNIQUES, Accuracy
from experiments.slicing_membership import FIVE, TWO, Matching
from experiments.slicing_statements import EDUCATION, OCCUPATION, WAYS, Comparisons, Way

_FAKES = """Distinct tuples that are not in the original data and match at least one bucket, all counted exactly. The
paper names its five columns, not its two: *c = 2* are those that clustering finds, *six QIs* two columns of the quasi
attributes alone that come near to the paper's numbers."""

NUMBERS = (3, 4, 5, 6, 7)
CATEGORIES = ("<= 10", "11-20", "> 20")
_MODEL = "distinct l-diversity; a missing point: no table of that technique meets the requirement"
_COUNTED = "random buckets; a missing point: none, or too many to count"
HEADINGS = {
    3: "Learning the sensitive attribute, Occupation",
    4: "Learning a quasi attribute, Education",
    5: "The number of columns, c",
    6: "The number of fake tuples",
    7: "The number of matching buckets",
}


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
            yield Drawing(str(number), stem, title, _MODEL, panels, rows=len(result.tables))
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


def data(number: int, result: Result) -> Iterator[str]:
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


def figure_csv(number: int, result: Result) -> str:
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
    return _csv([_ACCURACY, *rows])


def whole_csv(result: Result) -> str:
    """Return every accuracy as CSV."""
    return _csv([_ACCURACY, *(_accuracy(table, one) for table in result.tables for one in table.accuracies)])


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
    return _csv(rows)


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _csv(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
