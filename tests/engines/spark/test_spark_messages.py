"""What is said when Spark is not there or does not finish: what to do, and never a value of a record."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import shoal
from shoal.core.errors import InputError, UsageError
from shoal.sources.spark.session import explain_failures, spark_session

SECRET = "Zaphod-4711"


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UsageError, match=r"needs the package pyspark; install shoal\[spark\]"):
        spark_session("local[2]")


def test_a_failing_task_is_told_without_its_values(spark: Any, frame: Any) -> None:
    from pyspark.sql import functions

    bad = frame.select(functions.raise_error(functions.lit(SECRET)).alias("age"))
    with pytest.raises(InputError) as failure:
        shoal.open_source(bad)
    assert SECRET not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__
    assert "Spark could not finish its work on the Spark DataFrame" in str(failure.value)
    assert "Nothing was published" in str(failure.value)


def test_errors_of_shoal_come_through_from_a_task(spark: Any, frame: Any) -> None:
    def fail(batches: Any) -> Any:
        raise InputError("column 'age' changed while it was being read; nothing was published")
        yield from batches

    from shoal.sources.spark.session import quiet

    with quiet():
        failing = frame.select("age").mapInArrow(fail, "age long")
    message = r"^column 'age' changed while it was being read; nothing was published$"
    with pytest.raises(InputError, match=message), explain_failures("people"):
        failing.collect()


def test_importing_the_engine_loads_no_pyspark() -> None:
    code = "import sys, shoal.engines.spark, shoal.engines.spark.engine; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
