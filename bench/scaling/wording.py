"""Numbers of the scaling page, for people."""

from __future__ import annotations

from bench.scaling.cluster import Expectation

_SCALES = ((1e9, "billion"), (1e6, "million"))


def line(*cells: object) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def count_text(number: float) -> str:
    """Return a number of things.

    >>> count_text(9_970_000), count_text(53_124)
    ('10.0 million', '53,124')
    """
    return f"{number / 1e6:.1f} million" if number >= 1e6 else f"{number:,.0f}"


def rows_text(rows: float) -> str:
    """Return a number of rows that somebody chose.

    >>> rows_text(300_000), rows_text(3_000_000), rows_text(1e11)
    ('300,000', '3 million', '100 billion')
    """
    return next((f"{rows / scale:g} {name}" for scale, name in _SCALES if rows >= scale), f"{rows:,.0f}")


def duration(seconds: float) -> str:
    """Return a time of which the first two digits matter at most.

    >>> duration(0.2), duration(42.3), duration(780), duration(9000), duration(400_000)
    ('< 1 s', '42 s', '13 min', '2.5 h', '4.6 days')
    """
    if seconds < 1:
        return "< 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def small_time(seconds: float) -> str:
    """Return a small time.

    >>> small_time(2.34e-7), small_time(1.95e-5), small_time(0.0)
    ('234 ns', '19.5 µs', '0')
    """
    if not seconds:
        return "0"
    return f"{seconds * 1e9:.3g} ns" if seconds < 0.9995e-6 else f"{seconds * 1e6:.3g} µs"


def bytes_text(number: float) -> str:
    """Return a number of bytes.

    >>> bytes_text(7.344), bytes_text(26_570)
    ('7.3 bytes', '27 kB')
    """
    return f"{number / 1000:.0f} kB" if number >= 10_000 else f"{number:.1f} bytes".replace(".0 ", " ")


def gains(one: Expectation) -> str:
    """Return a line on how far more workers help."""
    return line(rows_text(one.table.rows), one.table.name, duration(one.serial), f"{one.most_gain:,.0f}", _memory(one))


def _memory(one: Expectation) -> str:
    """Return what the driver holds."""
    if one.table.distinct:
        return "a sample of a million cells, 0.5 GiB"
    return f"{one.table.cells * 150 / 2**30:.1f} GiB for cells, and what the program needs"
