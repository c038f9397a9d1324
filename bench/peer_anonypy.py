"""The peer's strict Mondrian on Adult; runs in an environment of its own."""

from __future__ import annotations

import sys

import anonypy
import pandas as pd

QUASI = ["age", "workclass", "education", "marital-status", "race", "sex"]

table = pd.read_csv(sys.argv[1])
for column in [*QUASI[1:], "occupation"]:
    table[column] = table[column].astype("category")
anonypy.Preserver(table, QUASI, "occupation").anonymize_k_anonymity(k=10)
