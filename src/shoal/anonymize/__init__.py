"""Anonymize a table by a policy and return a verified release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from shoal.anonymize.opening import Detail, Options
from shoal.anonymize.run import run
from shoal.core.errors import UsageError
from shoal.core.progress import Progress, show_progress
from shoal.engines.regions.budget import Budget
from shoal.linking.ledger.records import Ledgered, ledger_options
from shoal.policy.policy import Policy
from shoal.release.release import Release
from shoal.sources.addresses import DatabaseTable
from shoal.sources.frames import is_spark_frame
from shoal.sources.writers import Format

EngineName = Literal["local", "spark"]


def anonymize(
    data: object,
    policy: str | Path | Mapping[str, Any] | Policy,
    *,
    out: str | Path | None = None,
    format: Format | None = None,  # noqa: A002  the word that users know
    seed: int | None = None,
    utility: Detail = "quick",
    progress: Progress | None = None,
    ledger: Ledgered = None,
    to: str | DatabaseTable | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    engine: EngineName | None = None,
    master: str | None = None,
    strict: bool = False,
    sign: str | Path | None = None,
    overwrite: bool = False,
) -> Release:
    """Publish a table by a policy, after the verifier has accepted the release.

    Parameters
    ----------
    data
        A path, the address of a database table, a pandas or polars data frame, an Arrow table, a DuckDB relation or a
        Spark DataFrame.
    policy
        The policy, or the path of its file.
    out
        The folder in which ``public`` and ``internal`` are written. Without it, the release stays in memory.
    format
        The format of the written data; by default the format of the source.
    seed
        A seed that makes the release reproducible. By default, randomness comes from the operating system.
    utility
        With "full", the release is also scored by counts, associations and predictions.
    ledger
        A path or ``LedgerOptions``. The release is linked with the entries, and refused if too little protection
        remains.
    to
        The address of a new database table that also gets the rows.
    memory
        The limit of the process, in bytes or like "2GiB". Larger tables are planned region by region if the method
        permits it.
    threads
        The number of threads. The result does not depend on it.
    engine, master
        "spark" counts and rewrites Parquet files on Spark, perhaps on a *master*. DataFrames of Spark need neither.
    strict
        Whether open high findings prevent the publication.
    sign
        The file of a signing key for the statement of a written release.
    overwrite
        Whether to replace an earlier release in *out*.

    Returns
    -------
    Release
        ``release.data`` has the kind of *data* (an Arrow table for paths and addresses), or is None with *out*.

    Raises
    ------
    ShoalError
        Nothing was published: an input is faulty, no release satisfies the policy, or the verifier refused it.
    """
    from shoal.release.signing import read_signing_key  # a run needs it, and the import of shoal does not

    if sign is not None and out is None:
        raise UsageError("only a release that is written can be signed; give a folder for it")
    options = Options(
        out=None if out is None else Path(out),
        overwrite=overwrite,
        format=format,
        seed=seed,
        detail=utility,
        ledger=ledger_options(ledger),
        to=to,
        budget=Budget.of(memory, threads),
        strict=strict,
        signing=None if sign is None else read_signing_key(Path(sign)),
    )
    on_spark = engine == "spark" or (engine is None and is_spark_frame(data))
    if not on_spark and (is_spark_frame(data) or master is not None):
        raise UsageError("a Spark DataFrame and a master are for the Spark engine; give engine='spark' or neither")
    with show_progress(progress) as showing:
        if not on_spark:
            return run(data, policy, options, showing)
        from shoal.engines.spark.engine import SparkEngine

        return run(data, policy, options, showing, SparkEngine(options.budget.threads, master))
