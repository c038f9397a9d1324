"""Checking a release where Spark's workers are, with the same answer."""

from __future__ import annotations

from shoal.verify.spark.checking import check_on_spark
from shoal.verify.spark.released import SparkFileRows, SparkRows

__all__ = ["SparkFileRows", "SparkRows", "check_on_spark"]
