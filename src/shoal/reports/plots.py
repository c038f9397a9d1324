"""Plots as SVG, each with a description in words and the table of its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from shoal.core.wording import attack_text, count_noun, join_words, percent, range_text
from shoal.reports import svg
from shoal.reports.templates import escape_text, render

LIGHT = {
    "ground": "#ffffff",
    "ink": "#1f2328",
    "soft": "#57606a",
    "grid": "#d8dee4",
    "axis": "#848d97",
    "before": "#b35900",
    "before-fill": "#fff1e0",
    "after": "#0067a8",
    "after-fill": "#0067a8",
}
DARK = {
    "ground": "#15181d",
    "ink": "#e9ecf0",
    "soft": "#aeb7c1",
    "grid": "#343a42",
    "axis": "#7d8792",
    "before": "#f0a04b",
    "before-fill": "#3b2a16",
    "after": "#6cb8f0",
    "after-fill": "#6cb8f0",
}
LIMIT = 20  # rows in a plot; the description counts the others
BEFORE, AFTER = ("bar plot-before", "before"), ("bar plot-after", "after")
_PAIR_NAME = 78.0  # the largest width of each name of a pair
_SMALL_WIDTH, _SMALL_TOP, _SMALL_BOTTOM = 240.0, 6.0, 70.0
_HAVE = ("has", "have")
_NO_VALUES = "The table has no records."
_REST = 98.0  # the width of a group of values that are not numbers
_LOWEST = -0.25  # intervals are cut off below


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with its table and its description; all its parts are escaped."""

    title: str
    description: str
    drawing: Markup
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def figure(self) -> Markup:
        """Return the drawing, its caption and its table as HTML, which needs the style sheet of :func:`plot_style`."""
        return render("figure.html", plot=self)

    def standalone(self) -> str:
        # Many SVG viewers support classes, but not variables.
        opening, rest = str(self.drawing).split(">", 1)
        style = render("drawing.css", light=LIGHT, dark=DARK)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{opening}><style>{style}</style>{rest}\n'


def colour_variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--plot-{name}: {colour};" for name, colour in colours.items())


@cache
def plot_style() -> Markup:
    """Return the style sheet of plots; a page needs it once."""
    variables = {name: f"var(--plot-{name})" for name in LIGHT}
    return render("plots.css", light=colour_variables(LIGHT), dark=colour_variables(DARK), variables=variables)


def draw(
    title: str,
    description: str,
    parts: Iterable[str],
    height: float,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: float = svg.WIDTH,
    linked: bool = False,
) -> Plot:
    """Return the plot of these parts; screen readers read its title and description, and its links if it has any."""
    inside = "".join(parts)
    name = "plot-" + sha256(f"{title}\n{description}\n{inside}".encode("utf-8", "replace")).hexdigest()[:12]
    drawing = svg.element(
        "svg",
        svg.element("title", escape_text(title), id=f"{name}-title"),
        svg.element("desc", escape_text(description), id=f"{name}-description"),
        inside,
        xmlns="http://www.w3.org/2000/svg",
        class_="plot" if width == svg.WIDTH else "plot plot-small",
        viewBox=f"0 0 {svg.place_text(width)} {svg.place_text(height)}",
        width=width,
        height=height,
        role="group" if linked else "img",
        aria_labelledby=f"{name}-title {name}-description",
    )
    return Plot(title, description, Markup(drawing), tuple(heads), tuple(map(tuple, rows)))  # noqa: S704


def histogram(labels: Sequence[str], counts: Sequence[int], title: str = "Values", head: str = "value") -> Plot:
    """Draw a bar for each label in order; only the first and the last label are written below."""
    heights = svg.scale([float(count) for count in counts], _SMALL_BOTTOM, _SMALL_TOP, least=1.0)
    slot = (_SMALL_WIDTH - 4) / max(len(labels), 1)
    gap = min(2.0, slot / 4)
    parts = [svg.line(2, _SMALL_BOTTOM, _SMALL_WIDTH - 2, _SMALL_BOTTOM, "plot-axis")]
    for place, (label, count) in enumerate(zip(labels, counts, strict=True)):
        top = heights.place(count)
        tip = svg.tooltip(f"{label}: {svg.count_text(count)}")
        bar = {"x": 2 + place * slot + gap / 2, "y": top, "width": slot - gap, "height": _SMALL_BOTTOM - top}
        parts.append(svg.element("rect", tip, **bar, class_="plot-flat"))
    if labels:
        parts.append(svg.text(2, _SMALL_BOTTOM + svg.TEXT + 4, labels[0], "plot-soft", _SMALL_WIDTH / 2 - 8))
    if len(labels) > 1:
        end = _SMALL_WIDTH - 2
        parts.append(svg.text(end, _SMALL_BOTTOM + svg.TEXT + 4, labels[-1], "plot-soft", _SMALL_WIDTH / 2 - 8, "end"))
    rows = [(label, svg.count_text(count)) for label, count in zip(labels, counts, strict=True)]
    words = _NO_VALUES
    if labels:
        place = max(range(len(counts)), key=counts.__getitem__)
        words = (
            f"{count_noun(len(labels), 'bar')} from {labels[0]} to {labels[-1]}; the highest is {labels[place]} "
            f"with {count_noun(counts[place], 'record')}."
        )
    return draw(title, words, parts, _SMALL_BOTTOM + 2 * svg.TEXT - 2, (head, "records"), rows, width=_SMALL_WIDTH)


def compare_bars(
    name: str, shares: Mapping[str, Sequence[float]], heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> Plot:
    title = "share of all records"
    parts, height = svg.draw_bars(shares, (BEFORE, AFTER), title=title, value_text=percent, tick_text=percent)
    return draw(f"{name}, before and after", _describe_change(shares), parts, height, heads, rows)


def compare_histograms(
    name: str,
    ends: Sequence[float],
    shares: Mapping[str, Sequence[float]],
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    tick_text: Callable[[float], str],
) -> Plot:
    """Draw the numbers before as bars and after as an outline, over one axis between the *ends* of bins.

    Shares of other values, such as suppressed ones, are bars on the right.
    """
    bins, rest, left, bottom = list(shares.items())[: len(ends) - 1], list(shares.items())[len(ends) - 1 :], 46.0, 230.0
    stop = svg.WIDTH - 14 - _REST * len(rest)
    across = svg.Scale(ends[0], ends[-1], left, stop)
    up = svg.scale([share for pair in shares.values() for share in pair], bottom, 40.0)
    parts = []
    for tick in up.ticks():
        parts.append(svg.line(left, up.place(tick), svg.WIDTH - 14, up.place(tick), "plot-grid"))
        parts.append(svg.text(left - 6, up.place(tick) + svg.TEXT / 3, percent(tick), "plot-soft", anchor="end"))
    corners = [(left, bottom)]
    for (label, (before, after)), low, high in zip(bins, ends, ends[1:], strict=False):
        tip = svg.tooltip(f"{label}: {percent(before)} before, {percent(after)} after")
        x, right, top = across.place(low), across.place(high), up.place(before)
        bar = {"x": x + 0.5, "y": top, "width": right - x - 1, "height": bottom - top}
        parts.append(svg.element("rect", tip, **bar, class_="plot-before"))
        corners += [(x, up.place(after)), (right, up.place(after))]
    parts.append(svg.element("polyline", points=svg.points_text([*corners, (stop, bottom)]), class_="plot-range"))
    for place, (label, pair) in enumerate(rest):
        middle = stop + _REST * (place + 0.5)
        for x, share, (kind, when) in zip((middle - 20, middle), pair, (BEFORE, AFTER), strict=True):
            tip = svg.tooltip(f"{label}: {percent(share)} {when}")
            bar = {"x": x, "y": up.place(share), "width": 20.0, "height": bottom - up.place(share)}
            parts.append(svg.element("rect", tip, **bar, class_=kind.split()[1]))
        parts.append(svg.text(middle, bottom + svg.TEXT + 5, label, "plot-soft", _REST, "middle"))
    ticks = across.ticks(4 if svg.text_width(tick_text(ends[-1])) > svg.WIDTH / 10 else 6)
    parts += [
        svg.text(across.place(one), bottom + svg.TEXT + 5, tick_text(one), "plot-soft", anchor="middle")
        for one in ticks
    ]
    parts.append(svg.line(left, bottom, svg.WIDTH - 14, bottom, "plot-axis"))
    for x, kind, words in ((left, "bar plot-before", "before"), (left + 90, "line plot-range", "after")):
        parts += [svg.swatch(kind, x + 7, 13), svg.text(x + 22, 18, words, "plot-label")]
    parts.append(svg.text(svg.WIDTH - 14, 18, "share of all records", "plot-soft", anchor="end"))
    return draw(f"{name}, before and after", _describe_change(shares), parts, bottom + 2 * svg.TEXT, heads, rows)


def _describe_change(shares: Mapping[str, Sequence[float]]) -> str:
    if not shares:
        return _NO_VALUES
    label, (before, after) = max(shares.items(), key=lambda each: abs(each[1][0] - each[1][1]))
    if abs(before - after) < 5e-4:
        return "No share changed by more than a tenth of a percent."
    return f"{label} changed most: {percent(before)} of the records before, {percent(after)} after."


def class_sizes(before: Sequence[Mapping[str, int]] | None, after: Sequence[Mapping[str, int]]) -> Plot:
    """Draw the records by the size of their class or bucket, after and (if given) before."""
    one = "bucket" if after and "buckets" in after[0] else "class"
    sides = [after] if before is None else [before, after]
    sizes = {entry["from"]: range_text(entry["from"], entry["to"]) for side in sides for entry in side}
    by_size = [{entry["from"]: entry for entry in side} for side in sides]
    bars, rows = {}, []
    for low in sorted(sizes):
        entries = [side.get(low, {}) for side in by_size]
        bars[sizes[low]] = [entry.get("records", 0) for entry in entries]
        groups = [entry.get("classes", entry.get("buckets", 0)) for entry in entries]
        cells = [cell for pair in zip(groups, bars[sizes[low]], strict=True) for cell in pair]
        rows.append((sizes[low], *map(svg.count_text, cells)))
    parts, height = svg.draw_bars(
        bars,
        (AFTER,) if before is None else (BEFORE, AFTER),
        title=f"records, by the size of their {one}",
        value_text=svg.count_text,
        tick_text=svg.short_count_text,
    )
    heads = [f"size of the {one}"]
    for when, side in zip(("",) if before is None else (" before", " after"), sides, strict=True):
        heads += [f"{'buckets' if side and 'buckets' in side[0] else 'classes'}{when}", f"records{when}"]
    state = _alone(after, one)
    words = f"{state[0].upper()}{state[1:]}." if before is None else f"Before, {_alone(before)}. After, {state}."
    return draw(f"{one.capitalize()} sizes", words, parts, height, heads, rows)


def _alone(entries: Sequence[Mapping[str, int]], one: str = "class") -> str:
    """Describe how many records are alone in their class, and the size of the most common class."""
    every = sum(entry["records"] for entry in entries)
    if not every:
        return "the table has no records"
    alone = sum(entry["records"] for entry in entries if entry["to"] == 1)
    most = max(entries, key=lambda entry: entry["records"])
    alone_text = f"{alone:,} of {count_noun(every, 'record')} ({percent(alone / every)})" if alone else "no record"
    alone_text += f" {'is' if alone < 2 else 'are'} alone in {'its' if alone < 2 else 'their'} {one}"
    groups = "buckets" if one == "bucket" else "classes"
    share = most["records"] / every
    where = f"most ({percent(share)}) are" if share > 0.5 else f"the largest part ({percent(share)}) is"
    sizes = range_text(most["from"], most["to"])
    return alone_text if most["to"] == 1 else f"{alone_text}; {where} in {groups} of {sizes}"


def risks(before: Mapping[str, Any], after: Mapping[str, Any]) -> Plot:
    """Draw the success of adversaries as shares of records; the table has the class sizes too."""
    one, whom = ("person", "people") if "counts" in before else ("record", "records")
    measures = {
        "highest risk": "prosecutor_highest",
        "mean risk": "prosecutor_mean",
        "found by a marketer": "marketer",
    }
    shares = {name: (before[key], after[key]) for name, key in measures.items()}
    shares["share of uniques"] = tuple(side["unique_records"] / side["records"] for side in (before, after))
    parts, height = svg.draw_bars(
        shares,
        (BEFORE, AFTER),
        title=f"risk, or share of {whom}",
        value_text=percent,
        tick_text=percent,
        least=1.0,
    )
    smallest = [count_noun(side["smallest_class"], one, whom) for side in (before, after)]
    description = (
        f"The smallest class has {smallest[0]} before and {smallest[1]} after. An adversary who has all quasi values "
        f"of a person in the table is right with probability {percent(before['prosecutor_highest'])} "
        f"at most before and {percent(after['prosecutor_highest'])} after. "
        f"{whom.capitalize()} unique by their quasi-identifiers: {svg.count_text(before['unique_records'])} before, "
        f"{svg.count_text(after['unique_records'])} after."
    )
    counts = {
        whom: "records",
        "classes": "classes",
        "smallest class": "smallest_class",
        f"unique {whom}": "unique_records",
    }
    rows = [(name, *map(svg.count_text, (before[key], after[key]))) for name, key in counts.items()]
    rows += [(name, *map(percent, values)) for name, values in shares.items()]
    return draw("Risk of being found", description, parts, height, ("measure", "before", "after"), rows)


def column_changes(columns: Mapping[str, Mapping[str, float]], rows_suppressed: int | None = None) -> Plot:
    """Draw one bar for each column with the shares of unchanged, generalized and suppressed values."""
    looks = {"unchanged": "plot-after", "generalized": "plot-before", "suppressed": "plot-worse"}
    legend = [(f"bar {look}", change) for change, look in looks.items()]
    title = "share of the published records"
    frame = svg.make_frame(list(columns), [1.0], title=title, row=24.0, legend=legend, least=1.0)
    parts = frame.parts(percent)
    for place, (name, shares) in enumerate(columns.items()):
        start = 0.0
        for change, look in looks.items():
            x, end, tip = frame.scale.place(start), frame.scale.place(start + shares[change]), percent(shares[change])
            bar = {"x": x, "y": frame.middle(place) - 8, "width": end - x, "height": 16.0}
            if shares[change]:
                parts.append(svg.element("rect", svg.tooltip(f"{name}, {change}: {tip}"), **bar, class_=look))
            start += shares[change]
    rows = [(name, *(percent(shares[change]) for change in looks)) for name, shares in columns.items()]
    words = [f"{name} {percent(each['suppressed'])}" for name, each in columns.items() if each["suppressed"]]
    said = f"Suppressed: {join_words(words)}." if words else "No value is suppressed."
    if rows_suppressed:
        said += f" {count_noun(rows_suppressed, 'row')} {_HAVE[rows_suppressed > 1]} every quasi-identifier suppressed."
    return draw("What became of each column", said, parts, frame.height, ("column", *looks), rows)


def sensitive_shares(name: str, entries: Sequence[Mapping[str, Any]], more: int = 0, group: str = "class") -> Plot:
    """Draw the first 20 values; *more* counts values that are missing from *entries*. The *group* is a class or a
    bucket.
    """
    shown, hidden = entries[:LIMIT], max(len(entries) - LIMIT, 0) + more
    legend = (("diamond plot-before", "whole table"), ("line plot-range", f"lowest to highest in a {group}"))
    labels = [str(entry["value"]) for entry in shown]
    highest = [float(entry[key]) for entry in shown for key in ("whole", "lowest", "highest")]
    frame = svg.make_frame(labels, highest, title=f"share of records that have this {name}", row=24.0, legend=legend)
    parts = frame.parts(percent)
    for place, entry in enumerate(shown):
        y, (low, high) = frame.middle(place), (frame.scale.place(entry["lowest"]), frame.scale.place(entry["highest"]))
        tip = (
            f"{labels[place]}: {percent(entry['whole'])} of the whole table, {percent(entry['lowest'])} to "
            f"{percent(entry['highest'])} of a {group}"
        )
        parts.append(svg.range_mark(low, high, y, 5, tip))
        parts.append(svg.diamond(frame.scale.place(entry["whole"]), y, 5.5, "plot-before", svg.tooltip(tip)))
    rows = [
        (label, *(percent(entry[key]) for key in ("whole", "lowest", "highest")))
        for label, entry in zip(labels, shown, strict=True)
    ]
    heads = (name, "whole table", f"lowest in a {group}", f"highest in a {group}")
    title, words = f"{name}: {'classes' if group == 'class' else f'{group}s'} against the whole table", _NO_VALUES
    if shown:
        widest = max(shown, key=lambda entry: float(entry["highest"]) - float(entry["whole"]))
        words = (
            f"The farthest above the whole table is {widest['value']}: {percent(widest['whole'])} of all records, and "
            f"{percent(widest['highest'])} of the {group} with the largest share."
        )
        words += f" {hidden:,} more {'value is' if hidden == 1 else 'values are'} not shown." if hidden else ""
    return draw(title, words, parts, frame.height, heads, rows)


def associations(pairs: Sequence[Mapping[str, Any]]) -> Plot:
    ordered = sorted(pairs, key=lambda entry: -abs(entry["before"]))
    shown, hidden = ordered[:LIMIT], max(len(ordered) - LIMIT, 0)
    labels = [" – ".join(map(str, entry["pair"])) for entry in shown]
    values = [float(entry[side]) for entry in shown for side in ("before", "after")]
    legend = (("diamond plot-before", "before"), ("circle plot-after", "after"))
    short = [" – ".join(svg.fit(str(name), _PAIR_NAME) for name in entry["pair"]) for entry in shown]
    frame = svg.make_frame(
        short, values, title="association: 0 is none, 1 is complete", row=24.0, legend=legend, least=1.0
    )
    parts = frame.parts("{:g}".format)
    for place, entry in enumerate(shown):
        y = frame.middle(place)
        before, after = (frame.scale.place(entry[side]) for side in ("before", "after"))
        tip = f"{labels[place]}: {entry['before']:.2f} before, {entry['after']:.2f} after"
        parts.append(svg.line(before, y, after, y, "plot-thin"))
        parts.append(svg.diamond(before, y, 6.5, "plot-before", svg.tooltip(tip)))
        parts.append(svg.element("circle", svg.tooltip(tip), cx=after, cy=y, r=4.0, class_="plot-after"))
    rows = [
        (label, *(f"{entry[side]:.2f}" for side in ("before", "after")))
        for label, entry in zip(labels, shown, strict=True)
    ]
    words = "No pair of attributes was measured."
    if shown:
        place = max(range(len(shown)), key=lambda number: abs(shown[number]["before"] - shown[number]["after"]))
        most = shown[place]
        words = f"{labels[place]} changed most, from {most['before']:.2f} to {most['after']:.2f}."
        words += f" {hidden:,} weaker {'pair is' if hidden == 1 else 'pairs are'} not shown." if hidden else ""
    return draw("Associations kept", words, parts, frame.height, ("attributes", "before", "after"), rows)


def attack_risks(attacks: Sequence[Mapping[str, Any]], title: str = "Attacks") -> Plot:
    """Draw the risk and the interval of each attack; a mark is filled if its whole interval lies above 0."""
    legend = (("circle plot-after", "more than chance"), ("circle plot-hollow", "may be chance"))
    names = [attack_text(one) for one in attacks]
    found = [tuple(float(one["risk"][end]) for end in ("value", "low", "high")) for one in attacks]
    ends = [max(end, _LOWEST) for risk in found for end in risk]
    frame = svg.make_frame(names, ends, title="risk: 0% is what chance gives", row=26.0, legend=legend)
    parts, texts = frame.parts(percent), []
    for place, (name, (value, low, high)) in enumerate(zip(names, found, strict=True)):
        texts.append(f"{name}: {percent(value)}, between {percent(low)} and {percent(high)}")
        y, look = frame.middle(place), "plot-after" if low > 0 else "plot-hollow"
        parts.append(svg.range_mark(frame.scale.place(low), frame.scale.place(high), y, 4, texts[-1]))
        parts.append(
            svg.element("circle", svg.tooltip(texts[-1]), cx=frame.scale.place(value), cy=y, r=5.0, class_=look)
        )
    words = "No attack was tried."
    if found:
        _, worst = max(zip(found, texts, strict=True), key=lambda each: each[0][0])
        sure = sum(low > 0 for _, low, _ in found)
        words = f"The largest risk: {worst}. The whole interval lies above 0 for {sure} of {len(found)}."
    rows = [(name, *map(percent, risk)) for name, risk in zip(names, found, strict=True)]
    return draw(title, words, parts, frame.height, ("attack", "risk", "from", "to"), rows)


def release_plots(evidence: Mapping[str, Any]) -> list[Plot]:
    """Return all plots of a release: risks and sizes, columns, sensitive values by class, associations."""
    before, after = evidence.get("risk_before", {}), evidence.get("risk_after", {})
    found: list[Plot] = []
    if "prosecutor_highest" in before and "prosecutor_highest" in after:
        found += [risks(before, after), class_sizes(before["class_sizes"], after["class_sizes"])]
    elif "bucket_sizes" in after:
        found.append(class_sizes(None, after["bucket_sizes"]))
    if evidence.get("columns"):
        found.append(column_changes(evidence["columns"], evidence.get("rows_suppressed")))
    group = "bucket" if "bucket_sizes" in after else "class"
    found += [
        sensitive_shares(name, entry["values"], entry["more"], group)
        for name, entry in evidence.get("sensitive", {}).items()
    ]
    if evidence.get("associations"):
        found.append(associations(evidence["associations"]))
    return found
