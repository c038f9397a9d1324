"""``python -m shoal.cli.watched``: the command ``shoal``, which ends when its standard input is closed.

The studio starts its runs this way, so that none survives it: however the studio ends, the pipe is closed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from shoal.cli import main

_PATIENCE = 10.0


def _watch() -> None:
    """When standard input ends, interrupt as Ctrl-C does, and kill the process if it does not stop in time."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_PATIENCE)
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may have it ignored
    threading.Thread(target=_watch, daemon=True).start()
    sys.argv[0] = "shoal"
    main()
