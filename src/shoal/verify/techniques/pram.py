"""Values that were replaced at random by a transition matrix which the manifest states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.core.arrays import FloatArray
from shoal.manifest import Listed, StrictEntry
from shoal.verify.engine import Engine
from shoal.verify.techniques.base import Column, Declared, Demands, write_key, write_list, write_number
from shoal.verify.techniques.numbers import exact, has_once

_STEP = 1e-9  # probabilities are rounded to this step


class Transitions(StrictEntry):
    """The matrix of one stratum: a row of probabilities for each of its values."""

    stratum: Listed[str | None]
    values: Listed[str]
    matrix: Listed[Listed[float]]

    @model_validator(mode="after")
    def _fits(self) -> Transitions:
        n = len(self.values)
        if not n or not has_once(*self.values) or len(self.matrix) != n or any(len(row) != n for row in self.matrix):
            raise ValueError("has no square matrix of different values")
        if any(not 0 <= share <= 1 for row in self.matrix for share in row):
            raise ValueError("has a probability that is not between 0 and 1")
        if any(sum(map(exact, row)) != 1 for row in self.matrix):
            raise ValueError("has a row of probabilities that do not add up to 1")
        return self

    @property
    def array(self) -> FloatArray:
        """(n, n) the matrix."""
        return np.array(self.matrix, dtype=np.float64)


class Pram(Declared):
    """Each value became one of those that its row of the matrix leads to."""

    finding = "values are those of the transition matrix"
    agreement = "the matrix can lead from the source's frequencies to these"
    uncheckable = "the random draw by the matrix"
    demands: ClassVar[Demands] = {
        "names a column twice in strata, or the column itself": lambda own: has_once(own.column, *own.strata),
        "has not one matrix of every stratum": lambda own: own.has_all_strata,
        "has strata and is not invariant": lambda own: own.invariant or not own.strata,
        "has a matrix that does not keep values with the stated probability": lambda own: own.is_mixed,
    }

    invariant: bool
    strata: Listed[str]
    applied: Listed[Transitions]
    keep: Annotated[float, Field(gt=0, lt=1)] | None = None

    @property
    def has_all_strata(self) -> bool:
        """Whether each stratum has one matrix."""
        strata = {one.stratum for one in self.applied}
        return 0 < len(strata) == len(self.applied) and all(len(one) == len(self.strata) for one in strata)

    @property
    def is_mixed(self) -> bool:
        """Whether every matrix keeps values with the stated probability."""
        return self.keep is None or all(self._is_mixture(one.array) for one in self.applied)

    def _is_mixture(self, matrix: FloatArray) -> bool:
        """Whether a value is kept with the probability or drawn, from the same shares whatever it is."""
        n, keep = len(matrix), self.keep or 0.0
        drawn = matrix - np.diag(np.full(n, keep))
        if bool((np.diag(drawn) < -_STEP / 10).any()):
            return False
        shares = np.full(n, 1 / n) if not self.invariant else np.median(drawn, axis=0) / (1 - keep)
        return n == 1 or bool((np.abs(drawn - (1 - keep) * shares) <= (n + 2) * _STEP).all())

    def find_fault(self, published: Column) -> str | None:
        """All values are in a matrix; the file may have another spelling of their numbers."""
        known = sorted({value for one in self.applied for value in one.values})
        published.engine.put("matrix_values", {"v": pa.array(known, pa.string())})
        listed = f"SELECT coalesce(({write_number('v')})::VARCHAR, v) FROM matrix_values"
        plain = "coalesce(x::VARCHAR, t)"
        (strange,) = published.find(f"count(DISTINCT {plain}) FILTER ({plain} NOT IN ({listed}))")
        return f"has {strange} values that the transition matrix does not have" if strange else None

    def put_matrices(self, engine: Engine, kinds: Sequence[str]) -> None:
        """Make the table ``moves`` of all cells; *kinds* are the types of the strata and of the values."""
        columns: dict[str, list[Any]] = {name: [] for name in ("stratum", "value", "target", "p")}
        for one in self.applied:
            n = len(one.values)
            columns["stratum"] += [list(one.stratum)] * n**2
            columns["value"] += np.repeat(one.values, n).tolist()
            columns["target"] += [*one.values] * n
            columns["p"] += one.array.ravel().tolist()
        types = (pa.list_(pa.string()), pa.string(), pa.string(), pa.float64())
        arrays = [pa.array(own, kind) for own, kind in zip(columns.values(), types, strict=True)]
        engine.put("matrix_cells", pa.table(arrays, names=list(columns)))
        strata = write_list([write_key(f"stratum[{place}]", kind) for place, kind in enumerate(kinds[:-1], 1)])
        value, target = (write_key(name, kinds[-1]) for name in ("value", "target"))
        engine.make("moves", f"SELECT {strata} AS stratum, {value} AS value, {target} AS target, p FROM matrix_cells")

    def compare_counts(self, engine: Engine, kept: Sequence[int], *, whole: bool) -> str | None:
        """Return why the counts of ``published_cells`` cannot come from those of ``source_cells``, if they cannot.

        Both have the n rows of each value in a stratum. The places *kept* of the source's strata are published.
        *whole* says that all rows of the source were treated, not a sample of them.
        """
        held = "(SELECT * FROM source_cells WHERE value IS NOT NULL)"
        shown = "(SELECT stratum AS kept, value, n FROM published_cells WHERE value IS NOT NULL)"
        places = write_list([f"stratum[{place + 1}]" for place in kept])
        moved = f"(SELECT *, {places} AS kept FROM moves LEFT JOIN {held} USING (stratum, value))"
        after = (
            "(SELECT sum(n * p) AS after, sum(n) AS total, sum(n) FILTER (value = target) AS own, count(*) AS size,"
            f" count(n) AS met FROM {moved} GROUP BY stratum, target)"
        )
        changed = f"{after} WHERE met < size OR abs(after - own) > (size + 2) * {_STEP} * total"
        bounds = "coalesce(sum(n) FILTER (p = 1), 0) AS least, coalesce(sum(n) FILTER (p > 0), 0) AS most"
        cells = f"(SELECT kept, target AS value, {bounds} FROM {moved} GROUP BY kept, target)"
        both = f"(SELECT {places} AS kept, n FROM {held} UNION ALL SELECT kept, -n FROM {shown})"
        hidden = f"(SELECT kept, sum(n) AS hidden FROM {both} GROUP BY kept)"
        lacking = (
            f"{cells} AS c LEFT JOIN {shown} AS s USING (kept, value) JOIN {hidden} USING (kept)"
            " WHERE coalesce(s.n, 0) < least - hidden"
        )
        faults = [
            (
                "has values that no value of the source leads to",
                f"{shown} LEFT JOIN {cells} USING (kept, value) WHERE n > coalesce(most, 0)",
            ),
            ("lacks values that the matrix always keeps", lacking),
            ("has more values in a stratum than the source", f"{hidden} WHERE hidden < 0"),
        ]
        if whole:
            lost = f"{held} ANTI JOIN moves USING (stratum, value)"
            faults.insert(0, ("has no transition for some values of the source", lost))
        if whole and self.invariant:
            said = "has a matrix that does not keep the frequencies of the source, and is said to be invariant"
            faults.insert(0, (said, changed))
        return next((fault for fault, rows in faults if engine.value(f"SELECT count(*) FROM {rows}")), None)
