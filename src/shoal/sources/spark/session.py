"""Starting Spark, and explaining its errors."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shoal.core.errors import InputError, ShoalError, UsageError
from shoal.sources.base import import_optional

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = re.compile(r"shoal\.core\.errors\.InputError: ([^\n]+)")
_BATCH_ROWS = 1 << 16


def spark_session(master: str | None = None, **settings: str) -> SparkSession:
    """Return the running session, or start one without a web page and, on a local master, without open ports.

    *master* is Spark's, like ``local[2]`` or ``spark://host:7077``; *settings* are Spark's, with ``__`` for dots.
    """
    with quiet():
        sql = import_optional("pyspark.sql", "the Spark engine", "spark")
        found = sql.SparkSession.getActiveSession()
        if found is not None and master is None:
            return found  # type: ignore[no-any-return]
        if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
            raise UsageError("the Spark engine needs Java 17 or later; install it, or set JAVA_HOME")
        chosen = master or "local[*]"
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = sql.SparkSession.builder.master(chosen).appName("shoal")
        given = {key.replace("__", "."): text for key, text in settings.items()}
        for name, value in (_defaults(chosen) | given).items():
            builder = builder.config(name, value)
        try:
            with _listening_on_loopback(chosen):
                return builder.getOrCreate()  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001  of several libraries
            raise UsageError(
                f"Spark did not start on {chosen} ({type(error).__name__}); check that Java 17 runs here and that the "
                "master can be reached"
            ) from None


def _defaults(master: str) -> dict[str, str]:
    shared = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
    }
    if not master.startswith("local"):
        return shared
    # Rows are processed in Python, so faster Java code would save less time than its compilation takes.
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return shared | quick | {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def _listening_on_loopback(master: str) -> Iterator[None]:
    """Make a local Spark fetch its own results on loopback, for any name of the machine."""
    if not master.startswith("local") or "SPARK_LOCAL_IP" in os.environ:
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # Spark has no setting for it
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress pyspark's warning about new pandas versions, which shoal does not use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


@contextmanager
def explain_failures(name: str) -> Iterator[None]:
    """Convert the error of a failed job to a message without its text, which may quote rows."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as error:
        modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
        if not ({"pyspark", "py4j"} & modules or isinstance(error, ConnectionError)):
            raise
        ours = _OURS.search(str(error))
        if ours is not None:
            raise InputError(ours[1].strip()) from None
        raise InputError(
            f"Spark could not finish its work on {name} ({type(error).__name__}): a worker was lost, ran out of memory "
            "or could not read; Spark's log says which. Nothing was published"
        ) from None
