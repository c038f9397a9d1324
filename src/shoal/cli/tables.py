"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

MOST_SETS = 10  # of each kind in the terminal; --json has all


def table(console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a title; nothing if there are none. Columns of numbers are aligned to the right."""
    from rich.markup import escape
    from rich.table import Table

    listed = list(rows)
    if not listed:
        return
    console.print(f"\n[bold]{escape(title)}[/]")
    shown = Table(box=None, padding=(0, 2, 0, 0), show_header=any(heads))
    for number, head in enumerate(heads):
        shown.add_column(head, justify="right" if listed[0][number][:1].isdigit() and number else "left")
    for row in listed:
        shown.add_row(*map(escape, row))
    console.print(shown)
