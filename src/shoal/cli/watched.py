"""The command ``shoal`` for a program that runs it: it ends when its standard input does, so nothing is left behind.

The studio starts its runs by ``python -m shoal.cli.watched``. However the studio ends, its pipe is closed then.
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
    """Wait for the end of standard input; interrupt as Ctrl-C does then, and end by force what does not stop."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_PATIENCE)
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the program was started
    threading.Thread(target=_watch, daemon=True).start()
    sys.argv[0] = "shoal"
    main()
