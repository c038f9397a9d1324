"""What the model expects of a cluster: the work of each step shared among cores, what travels, and what does not share.

Nothing here was measured on a cluster. Work on a row is that of one core here, times what Spark adds; what travels and
what is written go at the speed of networks and disks that are assumed; nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, log

from bench.scaling.cost import BY_REGIONS, IN_MEMORY, Coefficients, Sizes, predicted

FAN_IN = 8  # pieces that one task merges
PARTITION_ROWS = 2_000_000
SAMPLE = 1 << 20  # cells that the driver cuts regions on


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines of one kind; the driver is one of them."""

    machines: int
    cores: int  # of each
    memory_gib: int
    network: float  # bytes a second, of each machine
    disk: float  # bytes a second, of each machine

    @property
    def all_cores(self) -> int:
        """The cores of all machines."""
        return self.machines * self.cores

    @property
    def stated(self) -> str:
        """The cluster, for people."""
        return (
            f"{self.machines} machines with {self.cores} cores and {self.memory_gib} GiB each, "
            f"{self.network * 8 / 1e9:g} Gbit/s of network and {self.disk / 1e9:g} GB/s of disk for each machine"
        )


@dataclass(frozen=True, slots=True)
class Table:
    """A table to publish: nearly every row a cell of its own, or few cells."""

    name: str
    rows: float
    cells: float
    classes: float
    quasi: int = 6
    columns: int = 8

    @property
    def distinct(self) -> bool:
        """Whether cells outgrow a driver, so that regions are planned on the workers."""
        return self.cells > 1e8

    @property
    def sizes(self) -> Sizes:
        """What its cost depends on."""
        return Sizes(self.rows, self.cells, self.classes, self.quasi, self.columns)


@dataclass(frozen=True, slots=True)
class Share:
    """Seconds of one step: of the workers' cores, of the network, of the disks, and of the driver."""

    workers: float
    network: float
    disk: float
    driver: float

    @property
    def whole(self) -> float:
        """All of them, one after another."""
        return self.workers + self.network + self.disk + self.driver


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a release of a table is expected to take on a cluster."""

    table: Table
    cluster: Cluster
    steps: Mapping[str, Share]
    files: float  # seconds that the driver takes besides to read the digest of files and to write one file

    @property
    def whole(self) -> float:
        """Seconds from a DataFrame to a DataFrame."""
        return sum(step.whole for step in self.steps.values())

    @property
    def serial(self) -> float:
        """Seconds of the driver, which more workers do not shorten."""
        return sum(step.driver for step in self.steps.values())

    @property
    def most_gain(self) -> float:
        """How many times faster than one core it can get with ever more workers (Amdahl)."""
        shared = sum(step.workers for step in self.steps.values()) * self.cluster.all_cores
        return (shared + self.serial) / self.serial

    @property
    def bottleneck(self) -> str:
        """The largest part of all: a step, and what of it takes longest."""
        parts = {
            f"{step}: {part}": getattr(share, part)
            for step, share in self.steps.items()
            for part in ("workers", "network", "disk", "driver")
        }
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was measured on this machine, and carries over."""

    coefficients: Coefficients
    volumes: Mapping[str, float]
    one_core: Mapping[str, float]  # how many times longer each step takes on one core than on the two of this machine
    spark: float  # how many times longer rows take on Spark than on the local engine


def expected(table: Table, cluster: Cluster, measured: Measurements) -> Expectation:
    """Return what each step is expected to take."""
    planned = _by_regions if table.distinct else _in_memory
    steps = planned(table, cluster, measured)
    volume = measured.volumes
    writing = table.rows * volume["writing the one file, seconds per row"]
    passing = table.rows * volume["published row and its key, per row"] / cluster.network
    digest = table.rows * volume["digest of the source, seconds per row"]
    return Expectation(table, cluster, steps, max(writing, passing) + digest)


def _in_memory(table: Table, cluster: Cluster, measured: Measurements) -> dict[str, Share]:
    """Cells fit into the driver: rows are counted, rewritten and verified on workers, the plan is the driver's."""
    volume, size = measured.volumes, table.sizes
    seconds = predicted(measured.coefficients, IN_MEMORY, size)
    n_partitions = ceil(table.rows / PARTITION_ROWS)
    per_partition = min(table.cells, PARTITION_ROWS)  # cells that a partition has, at most
    levels = max(ceil(log(n_partitions) / log(FAN_IN)), 1)
    merged = sum(
        min(table.cells, per_partition * FAN_IN**level) * n_partitions / FAN_IN**level for level in range(levels)
    )
    cells_sent = merged * volume["cells of a partition, per cell"]
    last = FAN_IN * table.cells * volume["cells of a partition, per cell"]
    plan_sent = table.cells * (volume["cells in memory, per cell"] + volume["class of a cell, per cell"])
    plan_sent += table.classes * volume["labels of classes, per class"]
    rows_sent = table.rows * volume["published row and its key, per row"]
    checked = table.rows * volume["class number in the witness, per row"]
    read = table.rows * volume["source file, per row"]
    cores, network, disk = cluster.all_cores, cluster.machines * cluster.network, cluster.machines * cluster.disk

    def on_workers(step: str) -> float:
        return seconds[step] * measured.one_core[step] * measured.spark / cores

    merging = FAN_IN * table.cells * volume["merging the last pieces, seconds per cell"]
    about = predicted(measured.coefficients, IN_MEMORY, replace(size, rows=0))["rest"]
    return {
        "count": Share(on_workers("count"), cells_sent / network + last / cluster.network, read / disk, merging),
        "plan": Share(0.0, 0.0, 0.0, seconds["plan"] + about),
        "apply": Share(
            on_workers("apply"),
            rows_sent / network + plan_sent * _rounds(cluster) / cluster.network,
            (read + 2 * rows_sent) / disk,
            0.0,
        ),
        "verify": Share(on_workers("verify"), checked / network, (read + 2 * checked) / disk, 0.0),
    }


def _rounds(cluster: Cluster) -> int:
    """Return the rounds in which all machines have what one has, each passing it on to one more."""
    return max(ceil(log(cluster.machines) / log(2)), 1)


def _by_regions(table: Table, cluster: Cluster, measured: Measurements) -> dict[str, Share]:
    """Cells do not fit: the driver cuts regions on a sample, and all else is done on the workers."""
    volume = measured.volumes
    per_row = {step: terms["per row"] for step, terms in measured.coefficients[BY_REGIONS].items()}
    read = table.rows * volume["source file, per row"]
    routed = table.rows * volume["row on its way to a region, per row"]
    rows_sent = table.rows * volume["published row and its key, per row"]
    checked = table.rows * volume["class number in the witness, per row"]
    cores, network, disk = cluster.all_cores, cluster.machines * cluster.network, cluster.machines * cluster.disk
    sample = Sizes(SAMPLE, SAMPLE, SAMPLE / 15, table.quasi, table.columns)
    sampled = predicted(measured.coefficients, IN_MEMORY, sample)
    stated = ceil(table.rows / PARTITION_ROWS)  # partitions that tell the driver which values they have
    tallies = stated * volume["merging a partition's values, seconds per partition"]

    def on_workers(step: str) -> float:
        return table.rows * per_row[step] * measured.one_core[step] * measured.spark / cores

    sample_sent = 2 * SAMPLE * volume["cells of a partition, per cell"]
    sample_sent += stated * volume["values of a partition, per partition"]
    return {
        "count": Share(on_workers("count"), sample_sent / cluster.network, read / disk, sampled["count"] + tallies),
        "plan": Share(
            on_workers("plan"), routed / network, (read + 2 * routed) / disk, sampled["plan"] + sampled["rest"]
        ),
        "apply": Share(on_workers("apply"), rows_sent / network, 2 * rows_sent / disk, 0.0),
        "verify": Share(on_workers("verify"), checked / network, (read + 2 * checked) / disk, tallies),
    }
