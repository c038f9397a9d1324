"""A verifier that is DuckDB and the script of a release: ``python -m conformance.plain FOLDER``."""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path

import duckdb

from conformance.__main__ import ACCEPTED, REJECTED


def verify(folder: Path) -> int:
    """Run ``verify.sql`` in the public folder; return 0 if its verdict is *verified*, and 4 if it is not."""
    with duckdb.connect() as engine, chdir(folder / "public"):
        try:
            answer = engine.execute(Path("verify.sql").read_text("utf-8")).fetchall()
        except (duckdb.Error, OSError) as error:
            print(str(error).splitlines()[0])
            return REJECTED
    print(answer[0][0])
    return ACCEPTED if answer == [("verified",)] else REJECTED


if __name__ == "__main__":
    sys.exit(verify(Path(sys.argv[1])))
