"""The Spark engine: Spark DataFrames in and out, counted and rewritten where their partitions are."""

from __future__ import annotations

from shoal.spark.engine import SparkEngine
from shoal.spark.session import spark_session
from shoal.spark.source import SparkSource, open_spark, open_spark_files

__all__ = ["SparkEngine", "SparkSource", "open_spark", "open_spark_files", "spark_session"]
