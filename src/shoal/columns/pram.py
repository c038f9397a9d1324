"""PRAM, the post-randomization method: values of a category are replaced at random by a published transition matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from shoal.columns.base import NOISE_ADDITION, NumberDomain, Technique, Trace, Treatment
from shoal.columns.row_random import RowRandom
from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.dictionaries import encode_columns, factor_column
from shoal.core.errors import InputError, PolicyError, UsageError
from shoal.core.kernels import same_rows
from shoal.core.randomness import Chance
from shoal.core.wording import code, count_noun, join_words
from shoal.sources.base import Source
from shoal.taxonomies.parse import texts
from shoal.taxonomies.scales import exact

UNITS = 10**9  # probabilities are multiples of 1 / UNITS, and draws use exactly the published ones
MOST_ENTRIES = 100_000  # of all matrices together, because they are published
_FEWEST = 3  # records of a value, below which the exact share discloses single people
_MANY_UNCHANGED = 0.05  # of the rows


class Pram(Technique):
    """Each record's value is independently kept or replaced at random, by a published transition matrix.

    Gouweleeuw, Kooiman, Willenborg and de Wolf, "Post randomisation for statistical disclosure control: theory and
    implementation", Journal of Official Statistics 14(4), 1998. An invariant matrix R satisfies p R = p for the shares
    p of the values: expected frequencies equal the true ones.

    >>> Pram(keep=0.8, invariant=True, strata=("region",)).needs
    ('region',)
    """

    name = "pram"
    title = "values replaced at random by a published transition matrix"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = NOISE_ADDITION  # its authors describe it as noise addition for categories

    keep: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="probability with which a value stays; otherwise a value, possibly the same, is drawn from all "
        "values of the column, uniformly or, if invariant, by their frequencies",
    )
    matrix: dict[str, dict[str, float]] | None = Field(
        default=None,
        description="instead of keep: for each value, the probabilities of its replacements, which must add up to 1; "
        "omitted ones are 0",
    )
    invariant: bool = Field(
        default=False,
        description="whether expected frequencies equal the true ones; a given matrix is then followed by its "
        "Bayesian reversal. The published matrix then discloses the exact frequencies",
    )
    strata: tuple[str, ...] = Field(
        default=(), description="columns; values are replaced separately in each group of records that agree in them"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if (self.keep is None) == (self.matrix is None):
            raise ValueError("give either keep, a probability, or matrix")
        if self.strata and not self.invariant:
            raise ValueError("without invariant: true, all strata have the same matrix; leave out strata, or add it")
        if len(set(self.strata)) != len(self.strata):
            raise ValueError("strata names a column twice")
        if self.matrix is not None:
            self._check_matrix(self.matrix)
        return self

    @staticmethod
    def _check_matrix(matrix: Mapping[str, Mapping[str, float]]) -> None:
        if len(matrix) ** 2 > MOST_ENTRIES:
            raise ValueError(f"a matrix of {len(matrix):,} values is too large to be published; group the values first")
        for value, row in matrix.items():
            if unknown := [other for other in row if other not in matrix]:
                raise ValueError(f"the row of {value!r} leads to {unknown[0]!r}, which has no row")
            shares = [exact(share) for share in row.values()]
            if not all(0 <= share <= 1 for share in shares):
                raise ValueError(f"the row of {value!r} has a number that is not a probability from 0 to 1")
            if any((share * UNITS).denominator != 1 for share in shares):
                raise ValueError(f"the row of {value!r} has a probability of more than 9 decimals")
            if sum(shares) != 1:
                raise ValueError(
                    f"the probabilities in the row of {value!r} add up to {float(sum(shares)):.12g}; they must add up "
                    "to 1 exactly, as 0.333, 0.333 and 0.334 do"
                )
        if all(row.get(value, 0) == 1 for value, row in matrix.items()):
            raise ValueError("the matrix keeps every value, which would change nothing")

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        strata = join_words([code(name) for name in entry["strata"]])
        within = f", separately in each group of records that agree in {strata}" if strata else ""
        kept = f" Each was kept with a probability of at least {entry['keep']:g}." if "keep" in entry else ""
        fair = " Expected frequencies equal the true ones." if entry["invariant"] else ""
        return (
            "values were replaced at random and independently, with the probabilities in `manifest.json` "
            f"(`techniques`, `applied`){within}.{kept}{fair} A record's value may differ from the original."
        )

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        names = join_words([code(name) for name in entries])
        advice = (
            f"- Values of {names} were replaced at random (PRAM), which weakens associations. For unbiased counts x, "
            "solve R'x = y, where R is the published matrix and y the published counts of the values in the rows "
            "of interest: `shoal.estimate_counts(rows, manifest, column)` does this, with standard errors."
        )
        return [advice]

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        """A replaced value counts as moved from another row."""
        if "keep" in entry:
            moved = 1 - float(entry["keep"])
        else:
            kept = [row[k] for one in entry["applied"] for k, row in enumerate(one["matrix"])]
            moved = 1 - sum(kept) / max(len(kept), 1)
        return Trace(moved=moved, within=tuple(entry["strata"]))

    @property
    def needs(self) -> tuple[str, ...]:
        return self.strata

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        names = [column, *self.strata]
        (own, *others), (codes, *groups) = encode_columns(source.batches(names, dictionary=names))
        known = texts(own.values)
        labels = pa.array(sorted(known.to_pylist() if self.matrix is None else self.matrix), pa.string())
        place = np.asarray(pc.fill_null(pc.index_in(known, value_set=labels), -1), dtype=np.int64)
        if uncovered := int((place < 0).sum()):
            raise PolicyError(
                f"column {column!r}: {count_noun(uncovered, 'value has', 'values have')} no row in the matrix; give "
                "each value of the column a row"
            )
        if len(labels) < 2:
            raise PolicyError(f"column {column!r} has fewer than two values, so no value can be replaced")
        stratum, stated = _number_strata(groups, [dictionary.values for dictionary in others])
        label = np.append(-1, place)[codes]  # (n_rows,) -1: missing
        owner = 0 if stratum is None else stratum[label >= 0].astype(np.int64)
        counts = np.bincount(owner * len(labels) + label[label >= 0], minlength=len(stated) * len(labels))
        counts = counts.reshape(len(stated), len(labels))  # (n_strata, n_labels) records
        found = {"strata": len(stated)}
        if self.invariant:
            one_value = (counts > 0).sum(axis=1) == 1
            found["rows_in_strata_of_one_value"] = int(counts[one_value].sum())
            found["values_of_fewer_than_3_records_in_a_stratum"] = int(((counts > 0) & (counts < _FEWEST)).sum())
            if found["rows_in_strata_of_one_value"] == int(counts.sum()):
                raise PolicyError(
                    f"column {column!r}: no stratum has two values, so no value can be replaced; choose coarser strata"
                )
        matrices = self._make_matrices(column, counts, labels.to_pylist())
        applied = [
            {
                "stratum": stated[one.stratum],
                "values": labels.take(pa.array(one.labels)).to_pylist(),
                "matrix": (one.units / UNITS).tolist(),
            }
            for one in matrices
        ]
        said = {key: given for key, given in self.public(applied=applied).items() if key != "matrix"}
        values = _find_values(labels, own.values, source.schema.field(column).type, column)
        return PramTreatment(
            column, values.type, said, RowRandom.of(chance), labels, values, stratum, matrices, found, int(counts.sum())
        )

    def _make_matrices(self, column: str, counts: IntArray, labels: Sequence[str]) -> list[Matrix]:
        """Return the transition matrix of each stratum, over the stratum's values if invariant."""
        n = len(labels)
        supports = [np.flatnonzero(row) for row in counts] if self.invariant else [np.arange(n)]
        entries = sum(len(support) ** 2 for support in supports)
        if entries > MOST_ENTRIES:
            raise PolicyError(
                f"column {column!r}: the transition matrices would have {entries:,} entries, all of which are "
                f"published; at most {MOST_ENTRIES:,} are allowed; group the values, or choose coarser strata"
            )
        given = None
        if self.matrix is not None:
            rows = [[self.matrix[value].get(other, 0.0) for other in labels] for value in labels]
            given = np.rint(np.array(rows) * UNITS).astype(np.int64)  # exact: no more than 9 decimals
            if not self.invariant:
                return [Matrix(0, supports[0], given)]
        matrices = []
        for stratum, support in enumerate(supports):
            shares = counts[stratum, support] / counts[stratum].sum() if self.invariant else np.full(n, 1 / n)
            if given is not None:
                first = given[support] / UNITS  # (n_support, n_labels)
                reached = shares @ first
                back = np.divide(first * shares[:, np.newaxis], reached, out=np.zeros_like(first), where=reached > 0)
                whole = first @ back.T
            else:
                whole = np.broadcast_to((1 - (self.keep or 0.0)) * shares, (len(support), len(support)))
            # Probabilities of replacement are rounded down; the diagonal gets the remainder.
            units = np.floor(whole * UNITS).astype(np.int64)
            np.fill_diagonal(units, 0)
            np.fill_diagonal(units, UNITS - units.sum(axis=1))
            matrices.append(Matrix(stratum, support, units))
        return matrices


class Matrix(NamedTuple):
    """The transition matrix of a stratum."""

    stratum: int
    labels: IntArray  # (n,) its values, ascending
    units: IntArray  # (n, n) probabilities times UNITS; each row adds up to UNITS


def _number_strata(
    groups: Sequence[CodeArray], values: Sequence[pa.Array]
) -> tuple[CodeArray | None, list[list[str | None]]]:
    """Return (n_rows,) the stratum of each row, None if there is only one, and the texts of each stratum.

    Strata are ordered by their texts, because the order must not disclose where rows are in the source.
    """
    if not groups:
        return None, [[]]
    first, stratum = same_rows(groups)
    known = [[None, *texts(own).to_pylist()] for own in values]
    stated = [[own[group[row]] for own, group in zip(known, groups, strict=True)] for row in first.tolist()]
    order = sorted(range(len(stated)), key=lambda one: [(text is not None, text or "") for text in stated[one]])
    number = np.empty(len(stated), dtype=np.int32)
    number[order] = np.arange(len(stated))
    return number[stratum], [stated[one] for one in order]


def _find_values(labels: pa.Array, values: pa.Array, kind: pa.DataType, column: str) -> pa.Array:
    """Return the labels as values of the column; labels that no record has are parsed."""
    found = values.take(pc.index_in(labels, value_set=texts(values)))
    if not found.null_count:
        return found
    try:
        return pc.coalesce(found, pc.if_else(pc.is_null(found), labels, None).cast(kind))
    except pa.ArrowInvalid:
        raise PolicyError(f"column {column!r}: the matrix has values that do not have the column's type") from None


@dataclass(frozen=True, slots=True, eq=False)
class PramTreatment(Treatment):
    """PRAM of one run."""

    random: RowRandom
    labels: pa.Array  # texts, ascending
    values: pa.Array  # the same as values of the column
    stratum: CodeArray | None = field(repr=False)  # (n_rows,)
    matrices: Sequence[Matrix]
    found: dict[str, int]
    n_values: int  # rows with a value

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Draw each row's new value by a random unit of its matrix row."""
        indices, entries = factor_column(column)
        place = np.asarray(pc.fill_null(pc.index_in(texts(entries), value_set=self.labels), -1), dtype=np.int64)
        label = np.append(place, -1)[indices]
        n, n_labels = len(column), len(self.labels)
        stratum = np.zeros(n, dtype=np.int32) if self.stratum is None else self.stratum[first_row : first_row + n]
        rows = np.concatenate([one.stratum * n_labels + one.labels for one in self.matrices])  # pairs, ascending
        wanted = stratum.astype(np.int64) * n_labels + label if len(stratum) == n else rows[:0]
        row = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
        if len(row) < n or bool((place < 0).any()) or bool(((rows[row] != wanted) & (label >= 0)).any()):
            raise InputError(f"column {self.column!r} changed while it was being read; nothing was published")
        # The rows of all matrices are concatenated: the units of row r end at r * UNITS + its running sums.
        sums = np.concatenate([np.cumsum(one.units, axis=1).reshape(-1) for one in self.matrices])
        sizes = np.concatenate([np.full(len(one.labels), len(one.labels)) for one in self.matrices])
        ends = np.repeat(np.arange(len(rows)) * UNITS, sizes) + sums
        targets = np.concatenate([np.tile(one.labels, len(one.labels)) for one in self.matrices])
        unit = self.random.draw(first_row, n, lambda words: _below(words[:, 0], UNITS))
        drawn = targets[np.searchsorted(ends, row * UNITS + unit, side="right")]
        return self.values.take(pa.array(drawn, mask=label < 0))

    def findings(self) -> dict[str, int]:
        return self.found

    def warnings(self) -> tuple[str, ...]:
        warnings = []
        fixed = self.found.get("rows_in_strata_of_one_value", 0)
        if fixed > _MANY_UNCHANGED * self.n_values:
            warnings.append(
                f"column {self.column!r}: {fixed:,} of {self.n_values:,} records are in strata of one value, which "
                "PRAM cannot change; choose coarser strata"
            )
        few = self.found.get("values_of_fewer_than_3_records_in_a_stratum", 0)
        if few:
            warnings.append(
                f"column {self.column!r}: the published matrices disclose how frequent values are in their strata, and "
                f"{count_noun(few, 'value has', 'values have')} fewer than {_FEWEST} records there; group rare values, "
                "choose coarser strata, or leave out invariant"
            )
        return tuple(warnings)


def _below(words: KeyArray, n: int) -> IntArray:
    """Return numbers below n, uniform to a relative error of 2**-34: word * n / 2**64, rounded down."""
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    return ((high * np.uint64(n) + (low * np.uint64(n) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def estimate_counts(rows: pa.Table, manifest: Mapping[str, Any], column: str) -> pa.Table:
    """Estimate how many of the given published rows had each value of a column before PRAM, with standard errors.

    For the published counts y and the transition matrix R, x = R'^-1 y is unbiased, and diag(y) - R' diag(x) R
    estimates the covariance of y (Gouweleeuw and others 1998, section 3). Standard errors cover PRAM only; they do
    not treat the people as a sample.

    Parameters
    ----------
    rows
        All rows of the release, or a subset selected by other columns.
    manifest
        The release's manifest.
    column
        A column that was treated by PRAM.

    Returns
    -------
    A table with the columns value, published, estimate and standard_error.

    Raises
    ------
    UsageError
        If the column was not treated by PRAM, the rows lack columns or are not of this release, or a matrix has no
        inverse.

    Examples
    --------

    >>> entry = {"technique": "pram", "strata": [], "applied": [
    ...     {"stratum": [], "values": ["no", "yes"], "matrix": [[0.9, 0.1], [0.2, 0.8]]}]}
    >>> rows = pa.table({"ill": ["no"] * 76 + ["yes"] * 24})
    >>> estimate_counts(rows, {"techniques": {"ill": entry}}, "ill").to_pydict()["estimate"]
    [80.0, 20.0]
    """
    entry = manifest.get("techniques", {}).get(column, {})
    if entry.get("technique") != Pram.name:
        raise UsageError(f"column {column!r} was not changed by pram; use its published counts")
    for name in (column, *entry["strata"]):
        if name not in rows.column_names or "labels" in manifest.get("attributes", {}).get(name, {}):
            raise UsageError(f"estimates for {column!r} need the values of {name!r}, which these rows do not have")
    names = [*entry["strata"], column]
    shown = pa.table({name: texts(rows.column(name)) for name in names}).group_by(names).aggregate([([], "count_all")])
    counted = {tuple(key): count for *key, count in zip(*shown.to_pydict().values(), strict=True)}
    found: dict[str, FloatArray] = {}  # published, estimate, variance
    for one in entry["applied"]:
        published = np.array([counted.pop((*one["stratum"], value), 0) for value in one["values"]], dtype=np.float64)
        matrix = np.array(one["matrix"])
        if np.linalg.matrix_rank(matrix) < len(matrix):
            raise UsageError(f"the transition matrix of {column!r} has no inverse, so counts cannot be estimated")
        inverse = np.linalg.inv(matrix)
        estimate = published @ inverse
        covariance = inverse.T @ (np.diag(published) - matrix.T @ (estimate[:, np.newaxis] * matrix)) @ inverse
        for value, own in zip(one["values"], np.stack([published, estimate, np.diag(covariance)], axis=1), strict=True):
            found[value] = found.get(value, np.zeros(3)) + own
    if any(key[-1] is not None for key in counted):
        raise UsageError(f"these rows have values of {column!r} that the release does not have; give rows of it")
    numbers = np.array(list(found.values())).reshape(-1, 3)
    return pa.table(
        {
            "value": list(found),
            "published": numbers[:, 0].astype(np.int64),
            "estimate": np.round(numbers[:, 1], 9) + 0.0,
            "standard_error": np.sqrt(np.maximum(numbers[:, 2], 0.0)),
        }
    )
