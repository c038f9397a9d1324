"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_SETS = 10  # of each kind in the terminal; --json has all


def table_of(*heads: str, headed: bool = True) -> Table:
    """Return an empty table as all commands show them."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), show_header=headed)
    for head in heads:
        made.add_column(head)
    return made


def table(console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a title; nothing if there are none. Columns of numbers are aligned to the right."""
    from rich.markup import escape

    listed = list(rows)
    if not listed:
        return
    console.print(f"\n[bold]{escape(title)}[/]")
    shown = table_of(*heads, headed=any(heads))
    for number, column in enumerate(shown.columns):
        column.justify = "right" if listed[0][number][:1].isdigit() and number else "left"
    for row in listed:
        shown.add_row(*map(escape, row))
    console.print(shown)
