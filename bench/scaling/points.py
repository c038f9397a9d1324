"""The runs behind the curves: which table, asked for what, on how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.full_domain import QUASI, policy, training
from bench.perturbed import write_perturbed
from bench.planning import n_cells
from bench.running import Ran, anonymized, described

Use = Literal["fit", "check", "show"]
MILLION = 1_000_000
STAYS = ("age", "sex", "postcode", "admitted", "occupation", "insurance")  # quasi attributes, as they are added
ROOM = "2GiB"  # of the runs by regions, as of the largest table: eleven million stays and more do not fit
TINY = ("768MiB", "1GiB")  # the first is the least that the command takes, and leaves room for one thread only
FEWEST = 0.95  # share of rows below which those runs would fit into memory
K10: dict[str, Any] = {"k-anonymity": {"k": 10}}
METHODS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "incognito": ([K10], {"incognito": {"measure": "loss"}}),
    "hilbert": ([{"distinct-l-diversity": {"l": 5}}], {"hilbert": {}}),
    "sweep": ([{"tau-l-diversity": {"tau": 0.5, "l": 3}}], {"sweep": {}}),
}


@dataclass(frozen=True, slots=True)
class Point:
    """One run; the model is fitted to some of them, checked on others, and some are only shown."""

    rows: int
    series: tuple[str, ...]
    use: Use = "fit"
    table: Literal["stays", "adult"] = "stays"
    copies: int = 1  # of every row
    quasi: int = len(STAYS)
    method: str = "mondrian"
    one_core: bool = False
    memory: str | None = None

    @property
    def file(self) -> str:
        """The name of the table's file."""
        return f"{self.table}-{self.rows}-{self.copies}.parquet"

    def source(self, folder: Path) -> Path:
        """Return the table, which is written unless it is there."""
        path = folder / self.file
        if not path.exists():
            _WRITERS[self.table](path, self.rows, self.copies)
        return path

    def policy(self) -> dict[str, Any]:
        """Return what is asked of the release."""
        if self.table == "adult":
            asked = {**policy([K10], 0), "method": {"mondrian": {}}}
            return _without(asked, QUASI[self.quasi :])
        from shoal.datasets.hospital import hospital_policy

        asked = _without(hospital_policy(), STAYS[self.quasi :])
        if self.method != "mondrian":
            asked["privacy"], asked["method"] = METHODS[self.method]
        return asked

    def run(self, folder: Path) -> Ran:
        """Run the command."""
        options = [] if self.memory is None else ["--memory", self.memory]
        if self.one_core:
            options += ["--threads", "1"]
        return anonymized(self.source(folder), self.policy(), folder, *options, one_core=self.one_core)


def points(share: float = 1.0) -> list[Point]:
    """Return all runs, those of the same table one after another; a *share* takes fewer rows of everything."""

    def rows(millions: float) -> int:
        return int(millions * MILLION * share)

    def regional(millions: float) -> int:
        return int(millions * MILLION * max(share, FEWEST))

    found = [Point(rows(millions), ("rows",)) for millions in (0.1, 0.3)]
    found += [Point(rows(1), ("rows", "cells", "quasi", "cores"))]
    found += [Point(rows(1), ("quasi",), quasi=quasi) for quasi in (2, 3, 4, 5)]
    found += [Point(rows(1), ("cores",), "show", one_core=True)]
    found += [Point(rows(1), ("cells",), copies=copies) for copies in (5, 25, 125)]
    found += [Point(regional(4), ("regions",), "show", memory=memory) for memory in TINY]
    found += [Point(rows(2), ("check",), "check", quasi=4)]
    found += [Point(rows(3), ("rows", "cores")), Point(rows(3), ("cores",), "show", one_core=True)]
    found += [Point(rows(millions), ("rows-few",), copies=125) for millions in (3, 8)]
    found += [Point(regional(millions), ("regions",), memory=ROOM) for millions in (12, 16, 20)]
    found += [Point(rows(1), ("check",), "check", table="adult", quasi=quasi) for quasi in (4, len(QUASI))]
    found += [Point(rows(10), ("rows",), "check"), Point(regional(30), ("regions",), "check", memory=ROOM)]
    for method, sizes in (("incognito", (0.1, 0.3, 1)), ("hilbert", (0.1, 0.3, 1)), ("sweep", (0.03, 0.1, 0.3))):
        found += [Point(rows(millions), ("methods",), "show", method=method) for millions in sizes]
    return found


def measured(folder: Path, share: float = 1.0) -> Iterator[dict[str, Any]]:
    """Run all points, and yield what each took; short ones that matter to the model run twice, and the better counts.

    Tables are removed once no other point needs them.
    """
    waiting = points(share)
    while waiting:
        point, *waiting = waiting
        source = point.source(folder)
        cells = n_cells(source, point.policy())
        runs = [point.run(folder) for _ in range(2 if point.rows <= MILLION and point.use != "show" else 1)]
        yield _told(point, cells, min(runs, key=lambda run: run.finished.seconds))
        if all(other.file != point.file for other in waiting):
            source.unlink()


def _told(point: Point, cells: int, run: Ran) -> dict[str, Any]:
    asked = {name: getattr(point, name) for name in ("use", "table", "method", "copies", "one_core", "memory")}
    return {**asked, "series": list(point.series), **described(run, cells)}


def _without(asked: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the policy with some attributes left out of the release."""
    return {**asked, "attributes": {**asked["attributes"], **{name: {"role": "identifier"} for name in names}}}


def _write_stays(path: Path, rows: int, copies: int) -> None:
    """Write stays, every one of them several times, in random order."""
    from shoal.datasets.hospital import stays
    from shoal.datasets.hospital_files import write_stays

    if copies == 1:
        write_stays(path, rows, seed=7)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    once = pa.Table.from_batches(list(stays(-(-rows // copies), seed=7)))
    order = np.random.default_rng(7).permutation(np.arange(rows) % once.num_rows)
    pq.write_table(once.take(pa.array(order)), path)


def _write_adult(path: Path, rows: int, copies: int) -> None:  # noqa: ARG001  they repeat by themselves
    write_perturbed(path, training(), rows, QUASI, seed=7)


_WRITERS = {"stays": _write_stays, "adult": _write_adult}


def of_series(found: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return the points of one curve."""
    return [point for point in found if name in point["series"]]
