"""The options that say where rows are worked on."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer


class Engine(StrEnum):
    """Where rows are worked on."""

    local = "local"
    spark = "spark"


EngineOption: TypeAlias = Annotated[Engine, typer.Option(help="Where rows are worked on.")]
MasterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="With --engine spark: Spark's master, like spark://host:7077; this machine without it."),
]
