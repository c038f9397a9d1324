"""Published columns that determine quasi-identifiers: with both, a reader can split the classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from shoal.audit.counting import Count
from shoal.audit.marginals import take_rows
from shoal.core.arrays import CodeArray
from shoal.core.dependence import SCREENED, determines, follow
from shoal.core.dictionaries import encode_columns
from shoal.core.kernels import same_rows
from shoal.core.results import Finding
from shoal.core.wording import join_words, percent

if TYPE_CHECKING:
    from shoal.audit.findings import PublishedTable

_MOST_PAIRS = 45
_OF_SIZES = ("k-anonymity", "alpha-k-anonymity")  # models that guarantee k records in every class


# Published columns, the quasi columns that they determine, and the quasi columns from which they follow.
Dependence: TypeAlias = tuple[tuple[str, ...], list[str], list[str]]


def split_classes(table: PublishedTable) -> Iterator[Finding]:
    """Find published columns by which a reader can undo the generalization of a quasi column.

    If a published column determines a quasi column, each row shows its quasi value. If it follows from a quasi column,
    a reader can exclude rows of a class for a person. Records for which this fails count in every group of their class.
    In large tables a sample of the classes is counted.
    """
    rows, quasi = table.rows, table.names("quasi")
    if table.publication is None or table.form.as_they_are or not quasi or not rows.placed.n_rows:
        return
    k = max((int(one.model_dump()["k"]) for one in table.models if one.name in _OF_SIZES), default=2)
    shown = (*rows.free, *(name for name in rows.sensitive if not rows.generalized[name]))
    classes, places, share = rows.read_places()
    names, class_of = [*shown, *quasi], np.unique(classes, return_inverse=True)[1]
    codes = dict(zip(names, encode_columns(take_rows(table.publication.source, names, places))[1], strict=True))
    for by, determined, determining in _find_dependences(codes, shown, quasi):
        given, about = same_rows([codes[name] for name in by])[1], (*determined, *determining)
        splits = [(given, codes[one]) for one in determined] + [(codes[one], given) for one in determining]
        right = np.logical_and.reduce([follow(*pair) for pair in splits])
        group = same_rows([class_of, *(target for _, target in splits)])[1]
        doubtful = np.bincount(class_of[~right], minlength=class_of.max() + 1)[class_of]
        left = np.bincount(group[right], minlength=group.max() + 1)[group] + doubtful
        below = right & (np.bincount(class_of)[class_of] >= k) & (left < k)
        if below.any():
            n, alone = (Count.project(int(some.sum()), share) for some in (below, below & (left == 1)))
            reveal = "together reveal" if len(by) > 1 else "reveals"
            text = (
                f"{join_words(by)} {reveal} {join_words(about)} for {percent(round(right.mean(), 3))} of the "
                f"records, so a reader can split the classes: {n} of {rows.n_rows:,} records ({n.n / rows.n_rows:.1%}) "
                f"are then in groups of fewer than {k}, down to {left[below].min()}, and {alone} are alone."
            )
            fix = f"Give {join_words(by)} the role quasi, or leave it out (role identifier)."
            yield table.grade("determined-quasi", n.n, (*by, *about), text, fix)


def _find_dependences(
    codes: Mapping[str, CodeArray], shown: Sequence[str], quasi: Sequence[str]
) -> Iterator[Dependence]:
    """Yield the columns that determine quasi columns or follow from one, then pairs that determine others."""
    some = np.random.default_rng(0).permutation(len(codes[quasi[0]]))[:SCREENED]
    few = {name: same_rows([column[some]])[1] for name, column in codes.items()}
    known = {name: [one for one in quasi if determines(few[name], few[one])] for name in shown}
    for name in shown:
        above = [one for one in quasi if one not in known[name] and determines(few[one], few[name])]
        if known[name] or above:
            yield (name,), known[name], above
    for first, second in islice(combinations(shown, 2), _MOST_PAIRS):
        joint = same_rows([few[first], few[second]])[1]
        others = [one for one in quasi if one not in known[first] + known[second]]
        if determined := [one for one in others if determines(joint, few[one])]:
            yield (first, second), determined, []
