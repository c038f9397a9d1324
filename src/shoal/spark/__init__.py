"""The Spark engine: Spark DataFrames in and out, counted and rewritten where their partitions are."""

from __future__ import annotations

from shoal.sources.spark.files import SparkFiles, open_spark_files
from shoal.sources.spark.session import spark_session
from shoal.sources.spark.source import SparkFrame, SparkSource, open_spark
from shoal.spark.engine import SparkEngine

__all__ = ["SparkEngine", "SparkFiles", "SparkFrame", "SparkSource", "open_spark", "open_spark_files", "spark_session"]
