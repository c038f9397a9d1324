"""A driver of its own process: verifies a release on a cluster and loses a worker on the way.

Run as ``python driving_verify.py MASTER DATA RELEASE GROUP``; GROUP is the process group of the worker that is ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    from losing import LosingAWorker

    from shoal.sources.spark import source as files
    from shoal.sources.spark.session import spark_session
    from shoal.sources.spark.source import open_spark_files
    from shoal.verify.verifier import verify

    files.FEWEST_ROWS = 500  # several partitions of few rows
    master, data, release, group = sys.argv[1:]
    session = spark_session(master)
    source = open_spark_files(Path(data), session)
    found = verify(
        Path(release), source=source, spark=session, progress=LosingAWorker(int(group), "comparing with the source")
    )
    print(json.dumps(found.as_dict()))


if __name__ == "__main__":
    main()
