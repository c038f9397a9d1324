"""A driver of its own process with so little memory that a table is planned by regions, on a cluster.

Run as ``python driving_regions.py MASTER DATA POLICY OUT GROUP``; GROUP is the process group of a worker that is ended
while regions are planned.
"""

from __future__ import annotations

import sys


def main() -> None:
    from losing import LosingAWorker

    import shoal
    from shoal.core.errors import ShoalError
    from shoal.engines.regions.budget import Budget

    few = Budget(1 << 30, cells=1_500, sample=800, region_rows=600, heap_rows=700, threads=1)
    Budget.of = classmethod(lambda cls, *_: few)  # type: ignore[method-assign,assignment]
    master, data, policy, out, group = sys.argv[1:]
    try:
        release = shoal.anonymize(
            data, policy, out=out, engine="spark", master=master, progress=LosingAWorker(int(group), "planning regions")
        )
    except ShoalError as error:
        print(error)
        sys.exit(error.exit_code)
    print(release.evidence["search"]["regions"])


if __name__ == "__main__":
    main()
