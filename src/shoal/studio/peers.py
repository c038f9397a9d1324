"""Whose program is at the other end of a connection, as far as the system tells.

Browsers send cookies to every port of a host, so a service of somebody else on this machine can learn the studio's.
Who holds a socket cannot be copied.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

Address = tuple[str, int]
Own = Callable[[Address, Address], bool]  # of the other end and of this one

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED = "0000000000000000FFFF0000"  # before an address of IPv4 in the table of IPv6
_ROOT = 0  # may do everything anyway, and carries connections that come from other systems into this one


def own_peers() -> Own | None:
    """Return what tells whether a connection comes from the user of this process; None where no system says so."""
    if not os.access(_TABLES[0], os.R_OK):
        return None
    users = {_ROOT, os.geteuid()}
    if os.geteuid() == _ROOT and os.environ.get("SUDO_UID", "").isdigit():
        users.add(int(os.environ["SUDO_UID"]))
    return lambda there, here: _owner(there, here) in users


def _owner(there: Address, here: Address) -> int | None:
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        found = owner_in(lines, there, here)
        if found is not None:
            return found
    return None


def owner_in(lines: Iterable[str], there: Address, here: Address) -> int | None:
    """Return the user who holds the other end by lines of the system's table; None if nobody does, or does any more.

    >>> line = "1: 0100007F:A1A5 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 23456 1"
    >>> owner_in([line], ("127.0.0.1", 0xA1A5), ("127.0.0.1", 8080))
    1000
    """
    wanted = [_written(there), _written(here)]
    for line in lines:
        words = line.split()
        if [word.removeprefix(_MAPPED) for word in words[1:3]] == wanted:
            user, file = words[7], words[9]
            return None if file == "0" else int(user)  # without a file the table says root, whoever it was
    return None


def _written(address: Address) -> str:
    """Return an address as the table has it: a number in the machine's order of bytes, and the port."""
    return f"{int.from_bytes(socket.inet_aton(address[0]), sys.byteorder):08X}:{address[1]:04X}"
