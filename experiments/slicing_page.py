"""Figures 3 to 7 of the slicing paper as plots and tables, and the page that puts them beside the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from experiments.figures import Drawing, Panel, Report, Statement, format_csv, write_table
from experiments.slicing import FIVE, TWO, Matching, Result, TableResult
from experiments.slicing_learning import (
    ALPHA,
    BUCKET_SIZE,
    CLASSIFIERS,
    DRAWS,
    LOCAL_RECODING,
    MULTISETS,
    QUESTIONS,
    SLICING,
    TARGETS,
    TECHNIQUES,
    Accuracy,
)
from experiments.slicing_statements import (
    CLEAR,
    EDUCATION,
    OCCUPATION,
    PRUNINGS,
    RANDOM,
    SAME_BUCKETS,
    WAYS,
    Comparisons,
    Way,
    judge_learning,
    judge_membership,
    judge_pairs,
)
from experiments.slicing_tables import MANY_VALUES, N_BINS

_FAKES = """Distinct tuples that are not in the original data and match at least one bucket, all counted exactly. The
paper names its five columns, not its two: *c = 2* are those that clustering finds, *six QIs* two columns of the quasi
attributes alone that come near to the paper's numbers."""

NUMBERS = (3, 4, 5, 6, 7)
CATEGORIES = ("1", "2", "3-5", "6-10", "11-20", "> 20")  # from each of LEAST_MATCHING to the next
FIGURE_TECHNIQUES = tuple(name for name in TECHNIQUES if name not in (LOCAL_RECODING, MULTISETS))
_ASKED = "distinct l-diversity; a missing point: no table of that technique meets the requirement"
_COUNTED = "random buckets of p records; a missing point: none, or too many to count"
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
    yield from (("", statement) for statement in (*judge_pairs(table), *judge_membership(table)))


def _lines(result: Result) -> Iterator[str]:
    yield from (
        "# Slicing: the paper's experiments run again",
        "",
        _SOURCE,
        "",
    )
    if result.quick:
        yield from ("**A quick run** on a sample of the records and few settings: not for quoting.", "")
    if result.note:
        yield from (result.note, "")
    yield from _what_was_run(result)
    yield from _reachable(result)
    yield from _statements(result)
    for number in NUMBERS:
        yield from _figure(number, result)
    yield from _prunings(result)
    yield from _same_buckets(result)


_SOURCE = """Li, Li, Zhang and Molloy, "Slicing: a new approach for privacy preserving data publishing", section 6,
Figures 3 to 7. This page is written by `python -m experiments slicing --docs docs`, figures and verdicts alike; nothing
on it is typed by hand. A small grid of it (`docs/figures/slicing-small.json`) is computed again by the tests."""

_TECHNIQUES = f"""Generalization is `mondrian`; slicing is `slicing` with c columns and alpha = {ALPHA}; bucketization
is `slicing` with alpha = 1 and two columns, all QIs and Occupation. Here all three cut by all QIs, as Mondrian does.
Categories have the order of the alphabet, education that of its years, and numbers may be cut anywhere. Nothing is
withheld. Every release passed `verify` against its source.

*Random buckets* are those of `grouping: random`, of {BUCKET_SIZE} records, or of more where the requirement needs it.
There a bucket tells nothing about its records, so that what a release teaches is what its columns keep, and no more.

Sliced and bucketized rows are re-linked by chance (`release.sample_table`), {DRAWS} times; folds take turns with the
draws. Of a generalized value the lower and the upper bound are learned from, as two attributes; where the target
itself is generalized, of which the paper says nothing, a value under its label is drawn. The tree splits by entropy,
has at least two records in a leaf and is pruned as C4.5 prunes; naive Bayes counts categories, and of numbers with
more than {MANY_VALUES} values {N_BINS} bins of about equally many records. Decision 25
(`docs/adr/0025-experiments.md`) lists the differences from Weka.

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
clearly ahead, in every comparison. A statement *holds in part* if that is so in some and the rival is clearly ahead in
none, and it *goes both ways* if each is ahead somewhere. The standard error takes the two accuracies as independent.
About one comparison in twenty is clear by chance where nothing differs: what counts is whether many agree."""

_RANDOM = """Where Mondrian cuts, a bucket tells nearly all that a QI tells, bucketized or sliced, and the techniques
hardly differ. With random buckets they do, by what the column of sex and occupation keeps: naming the commonest
occupation of each sex is right for {}, naming the commonest of all for {}. The price is that sex no longer goes with
the other QIs: see the distances of pairs below."""

_FEW = """A tuple matches at most as many buckets as its rarest column value has records, so that no tuple can match
more than {}. Categories
beyond that are empty whatever the grouping, which is no finding about slicing. The plots show shares of the records,
and of the fakes, over finer categories than the paper's (at most 10, 11 to 20, more), so that all tuples are seen."""

_PRUNINGS = """Accuracy of trees that learn Occupation, l = {}, asked about published rows / unseen records, in {} folds
each. The first four trees are scikit-learn's and are not pruned; they stop where a leaf would have fewer records. The
next is the tree of the figures above. J48 is Weka's own, as it is by default, on nominal categories and numeric
numbers, as the paper ran it. A tree that is hardly pruned fits the false links that re-linking makes, and generalized
rows have none: which technique is ahead may therefore be a question of the tree, and several are shown."""

_SAME = """Section 2.2 argues that slicing preserves more information than local recoding *of the same buckets*. Here
all three come from one release, slicing with l = {}: *local recoding* replaces the QI values of a bucket by their
range; *multisets* links every attribute at random within its bucket. Both are computed from the sliced release alone,
so whoever has that one has them too: a reader who makes the best of what is there cannot lose by slicing. What remains
to be asked is how much the others lose, and whether a given classifier notices. The generalization of the figures above
has buckets of its own.

The distance of pairs is the total variation distance between the joint shares of two attributes in the release and in
the original table, mean over all pairs, least and greatest of {} draws; of a range every value is drawn alike. A fresh
sample of as many records, drawn with replacement, shows what chance alone does."""


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
    yield from ("## Which l-diversity", "", _MODEL.format(", ".join(map(str, result.l))), "")
    rows: list[tuple[object, ...]] = []
    for table in result.tables:
        for most in table.reachable:
            known = ", ".join(most.known) or "nothing (bucketization, generalization)"
            rows.append((table.title, known, most.simple, most.distinct, f"{most.entropy:.2f}"))
    bounds = ("largest l of Definition 7", "of distinct values", "of exp(entropy)")
    yield from write_table(("table", "beside Occupation", *bounds), rows, words=2)
    yield from (_BUCKETS, "")
    rows = []
    for table in result.tables:
        for one in table.slices:
            columns = "; ".join(", ".join(part) for part in one.parts)
            rows.append((table.title, one.technique, columns, one.l, one.c, f"{one.buckets:,}", f"{one.mixed:.1%}"))
    heads = ("table", "technique", "columns", "l", "c", "buckets", "records in buckets of both sexes")
    yield from write_table(heads, rows, words=3)


def _statements(result: Result) -> Iterator[str]:
    n_records = min(table.records for table in result.tables)
    yield from ("## The paper's statements", "", _BETTER.format(n_records, 0.5 / n_records**0.5), "")
    rows = [
        (where, one.claim, table.title, asked, f"**{one.verdict}**", one.measured)
        for where in (*map(str, NUMBERS), RANDOM, PRUNINGS, SAME_BUCKETS)
        for table in result.tables
        for asked, one in judge_statements(table, result)
        if one.where == where
    ]
    yield from write_table(("figure", "the paper says", "table", "asked about", "verdict", "measured"), rows, words=6)
    shares = [
        " and ".join(f"{share:.1%} in {table.title}" for share, table in zip(column, result.tables, strict=True))
        for column in zip(*((table.by_sex, table.commonest[OCCUPATION]) for table in result.tables), strict=True)
    ]
    yield from (_RANDOM.format(*shares), "")


def _figure(number: int, result: Result) -> Iterator[str]:
    yield from (f"## Figure {number}: {HEADINGS[number]}", "")
    for drawing in drawings(result):
        if drawing.figure == str(number):
            yield from (f"![{drawing.title}](figures/{drawing.stem}.svg)", "")
    if number == 6:
        yield from _fakes_data(result)
    elif number == 7:
        yield from _matching_data(result)
    else:
        yield from _learning_data(number, result)


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
        technique: [found.value(technique, target, classifier, l, c) for l, c in points]
        for technique in FIGURE_TECHNIQUES
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
    for size in dict.fromkeys((*sizes[:2], sizes[-1])):
        found = _find(table, columns, size)
        for name, counts in (("records", found.records), ("fakes", found.fakes)):
            empty: list[float | None] = [None] * len(CATEGORIES)
            shares = empty if counts is None else [count / sum(counts) or None for count in counts]
            lines[f"{name}, p = {size:,}"] = shares
    return Panel(f"{table.title}, {columns}", "matching buckets", "share of tuples", CATEGORIES, lines, "log")


def _find(table: TableResult, columns: str, size: int) -> Matching:
    return next(one for one in table.matchings if (one.columns, one.size) == (columns, size))


def _learning_data(number: int, result: Result) -> Iterator[str]:
    yield "Accuracy when asked about published rows / about unseen records; distinct l-diversity. A dash: not reached."
    yield ""
    targets = TARGETS if number == 5 else (OCCUPATION,) if number == 3 else (EDUCATION,)
    points = [(l, result.c[0]) for l in result.l] if number != 5 else [(result.l[0], c) for c in result.c]
    for table in result.tables:
        rows = [
            (f"{target}, {classifier}", l, c, *_both_ways(table, result, FIGURE_TECHNIQUES, target, classifier, l, c))
            for target in targets
            for classifier in CLASSIFIERS
            for l, c in points
        ]
        yield from write_table((table.title, "l", "c of slicing", *FIGURE_TECHNIQUES), rows)


def _both_ways(
    table: TableResult, result: Result, techniques: Sequence[str], target: str, classifier: str, l: int, c: int
) -> list[str]:
    """Return the accuracies of each technique, asked about published rows / about unseen records."""
    both = [Comparisons(table, result, way) for way in WAYS]
    return [" / ".join(_decimal(one.value(name, target, classifier, l, c)) for one in both) for name in techniques]


def _fakes_data(result: Result) -> Iterator[str]:
    yield from (_FAKES, "")
    rows = []
    for table in result.tables:
        for one in table.matchings:
            counted = "too many to count" if one.n_fakes is None else f"{one.n_fakes:,}"
            counts = [f"{number:,}" for number in (one.size, one.n_records, one.originals)]
            rows.append((table.title, one.columns, *counts, counted))
    yield from write_table(("table", "columns", "p", "original records", "distinct ones", "fake tuples"), rows, words=2)
    for table in result.tables:
        for columns in dict.fromkeys(one.columns for one in table.matchings):
            parts = next(one.parts for one in table.matchings if one.columns == columns)
            yield f"- {table.title}, {columns}: {'; '.join(', '.join(part) for part in parts)}."
    yield ""


def _matching_data(result: Result) -> Iterator[str]:
    heads = [f"{kind} {category}" for kind in ("records", "fakes") for category in CATEGORIES]
    limits = [
        f"{_find(table, columns, result.bucket_sizes[0]).most} in {table.title} with {columns}"
        for table in result.tables
        for columns in (TWO, FIVE)
    ]
    yield from (_FEW.format(", ".join(limits)), "")
    yield "Original records, and distinct fake tuples, by their number of matching buckets."
    yield ""
    rows = []
    for table in result.tables:
        for one in table.matchings:
            fakes = ["-"] * len(CATEGORIES) if one.fakes is None else [f"{number:,}" for number in one.fakes]
            rows.append((table.title, one.columns, f"{one.size:,}", *(f"{number:,}" for number in one.records), *fakes))
    yield from write_table(("table", "columns", "p", *heads), rows, words=2)


def _prunings(result: Result) -> Iterator[str]:
    l = result.l[0]
    yield from ("## Trees, pruned in several ways", "", _PRUNINGS.format(l, result.pruning_folds), "")
    for table in result.tables:
        trees = dict.fromkeys(one.classifier for one in table.prunings)
        rows = [(tree, *_both_ways(table, result, TECHNIQUES, OCCUPATION, tree, l, 2)) for tree in trees]
        yield from write_table((table.title, *TECHNIQUES), rows)


def _same_buckets(result: Result) -> Iterator[str]:
    l = result.l[0]
    yield from ("## Local recoding of the same buckets", "", _SAME.format(l, DRAWS), "")
    names = (LOCAL_RECODING, MULTISETS, SLICING)
    for table in result.tables:
        rows = [
            (f"{target}, {classifier}", *_both_ways(table, result, names, target, classifier, l, 2))
            for target, classifier in QUESTIONS
        ]
        yield from write_table((f"accuracy, {table.title}", *names), rows)
    distances = [{one.technique: one for one in table.distances} for table in result.tables]
    rows = [
        (name, *(f"{of[name].least:.4f} to {of[name].greatest:.4f}" if name in of else "-" for of in distances))
        for name in dict.fromkeys(name for of in distances for name in of)
    ]
    yield from write_table(("distance of pairs", *(table.title for table in result.tables)), rows)


def _whole_csv(result: Result) -> str:
    """Return every accuracy as CSV."""
    names = list(Accuracy.__dataclass_fields__)
    accuracies = [(table.name, one) for table in result.tables for one in (*table.accuracies, *table.prunings)]
    rows = [[table, *(getattr(one, name) for name in names)] for table, one in accuracies]
    return format_csv([["table", *names], *rows])


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
