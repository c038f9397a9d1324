"""What the product does: a table and a policy in, a verified release out."""

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
    """Publish a table so that every class of the result keeps the policy's promises, and prove it.

    *data* is a path, an address of a database's table, a pandas or polars data frame, a pyarrow table or a DuckDB
    relation; without *out* the same kind comes back in ``release.data`` (a pyarrow table for a path or address). With
    *out*, the folders ``out/public`` and ``out/internal`` are written, and with *to*, the address of a new table, that
    too. Nothing comes back and nothing is written unless the verifier agrees. With the *utility* "full" the release is
    also asked questions: counts, associations, predictions. With a *ledger*, a path or
    ``LedgerOptions``, the release is linked with those that are in there, refused if they leave too
    little together, and else entered. *memory*, like "2GiB" or in bytes, is what the process may use: a table that
    needs more is planned region by region, if its method permits that. What is published does not depend on *threads*.
    A Spark DataFrame, or Parquet files with the *engine* "spark" on a *master*, is counted and rewritten on Spark.
    What no promise covers is in ``release.findings``; a *strict* run publishes nothing while high ones are open.
    With *sign*, the file of a key, a written release has a signed statement. With *overwrite*, an earlier release
    in *out* is replaced; any other folder is refused.
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
