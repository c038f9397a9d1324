"""Other programs, which are given the same files as shoal and run by turns with it."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from bench.measuring import Finished, process

PLACEHOLDERS = {
    "source": "the table, a CSV with commas and a header",
    "out": "the file that the peer is to write",
    "policy": "shoal's policy, JSON",
    "hierarchies": "the folder with <attribute>.csv of every quasi-identifier, separated by semicolons",
    "quasi": "the quasi-identifiers, separated by commas",
    "sensitive": "the sensitive attribute",
    "k": "of k-anonymity",
    "l": "of entropy l-diversity, or empty",
    "t": "of t-closeness with equal distances, or empty",
    "suppressed": "the share of records that may be suppressed",
}


class PeerError(Exception):
    """A peer ended with an error, or wrote nothing."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A command with placeholders; its name states the program and its version."""

    name: str
    command: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Peer:
        """Read ``NAME=command ...``; what cannot be run is refused before anything is measured.

        >>> Peer.parse("copy 1=cp {source} {out}").command[1:]
        ('{source}', '{out}')
        """
        name, _, command = (part.strip() for part in text.partition("="))
        if not name or not command:
            raise argparse.ArgumentTypeError('a peer is given as NAME="command ...", for example "ARX 3.9.2=java ..."')
        try:
            program, *parts = shlex.split(command)
            fields = {field for part in parts for _, field, _, _ in Formatter().parse(part) if field is not None}
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"the command of {name} cannot be read: {error}") from None
        if unknown := sorted(fields - PLACEHOLDERS.keys()):
            known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
            raise argparse.ArgumentTypeError(f"{name}: there is no placeholder {{{unknown[0]}}}; there are {known}")
        found = shutil.which(program)
        if found is None:
            raise argparse.ArgumentTypeError(f"{name}: the program {program} is not found")
        return cls(name, (found, *parts))

    def run(self, values: Mapping[str, object]) -> Finished:
        """Run the command on the files that *values* name, and remove what it wrote."""
        out = Path(str(values["out"]))
        out.unlink(missing_ok=True)
        program, *parts = self.command
        try:
            finished = process([program, *(part.format_map(values) for part in parts)])
        except RuntimeError as error:
            raise PeerError(str(error)) from None
        if not out.is_file() or not out.stat().st_size:
            raise PeerError(f"{self.name} ended without an error, but wrote nothing to {{out}}")
        out.unlink()
        return finished
