"""The page of the calibration: tables of detection and of false alarms, a section of experiments/results/attacks.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from experiments.calibration import ALONE, ANY, PEER, Calibration, Cell
from experiments.figures import Report, format_csv, write_json
from shoal.core.errors import UsageError

BEGIN, END = "<!-- calibration: made by python -m experiments calibration -->", "<!-- calibration ends -->"
NOBODY = "random"
MANY = 100  # releases from which on a share of false alarms is bounded
PLANTED = ("unique", "verbatim", "noisy")
METHOD = "method"  # exposures that a method made, and not planted rows


@dataclass(frozen=True, slots=True)
class Section(Report):
    """A report whose page is a section of `experiments/results/attacks.md`."""

    def write_docs(self, docs: Path, small: Mapping[str, Any]) -> Path:  # noqa: ARG002
        """Replace the section between its two marks, and the figures that it is made of."""
        path = docs.parent / "experiments" / "results" / "attacks.md"
        text = path.read_text(encoding="utf-8")
        if BEGIN not in text or END not in text:
            raise UsageError(f"{path} has no place for the table; put the lines {BEGIN!r} and {END!r} into it")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        write_json(docs / "figures" / f"{self.name}.json", self.document)
        path.write_text(f"{before}{BEGIN}\n\n{self.page}\n{END}{after}", encoding="utf-8")
        return path


def make_report(found: Calibration) -> Section:
    """Write down what was found."""
    rows = [list(asdict(cell).values()) for cell in found.cells]
    whole = format_csv([list(Cell.__dataclass_fields__), *rows])
    return Section("calibration", write_page(found), asdict(found), summarize(found), (), whole)


def summarize(found: Calibration) -> list[str]:
    """Return what became of the two targets, a line each."""
    false = {name: count(found, attack=name, way=NOBODY) for name in list_attacks(found)}
    every = Count(sum(each.alarms for each in false.values()), sum(each.runs for each in false.values()))
    worst = max(false, key=lambda name: false[name].share or 0.0)
    detected = count(found, attack=ANY, way="unique", share=0.01)
    return [
        f"1% of unique people are found in {detected} releases by at least one attack.",
        f"Where there is nothing to find, {every} attempts are false alarms, at most {every.most:.1%}.",
        f"No attack raises more of them than {worst}: in {false[worst]} releases.",
    ]


def list_attacks(found: Calibration) -> list[str]:
    """Return our attacks that were tried."""
    return sorted({cell.attack for cell in found.cells if cell.attack != ANY and not cell.attack.startswith(PEER)})


class Count(NamedTuple):
    """How many of some releases an alarm was raised over."""

    alarms: int
    runs: int

    @property
    def share(self) -> float | None:
        """The share of the releases, None if there are none."""
        return self.alarms / self.runs if self.runs else None

    @property
    def percent(self) -> str:
        """The share in words, empty if there are no releases."""
        return "" if self.share is None else f"{100 * self.share:.3g}"

    @property
    def most(self) -> float:
        """The greatest share of alarms that is not surprising, at 95%: Clopper and Pearson's bound.

        >>> round(Count(0, 300).most, 4)
        0.0099
        """
        from scipy.special import betaincinv

        return 1.0 if self.alarms == self.runs else float(betaincinv(self.alarms + 1, self.runs - self.alarms, 0.95))

    def __str__(self) -> str:
        return f"{self.alarms:,} of {self.runs:,}" if self.runs else ""


def count(found: Calibration, **wanted: Any) -> Count:
    """Count alarms over the releases of the cells that have all wanted entries.

    >>> cells = (Cell("plain", "unique", 0.01, "copies", 3, 4), Cell("plain", "random", 0.01, "copies", 0, 4))
    >>> str(count(Calibration(100, 4, 1, cells), way="unique"))
    '3 of 4'
    """
    own = [cell for cell in found.cells if all(getattr(cell, key) == value for key, value in wanted.items())]
    return Count(sum(cell.alarms for cell in own), sum(cell.runs for cell in own))


def write_page(found: Calibration) -> str:
    """Return the tables, each after a sentence that says what it counts."""
    exposures = list(dict.fromkeys((cell.form, cell.attack) for cell in found.cells if cell.way == METHOD))
    grid = [cell for cell in found.cells if cell.form not in dict(exposures)]
    shares, forms = sorted({cell.share for cell in grid}), list(dict.fromkeys(cell.form for cell in grid))
    about = (
        f"Every exposure was planted into releases of each form, of {found.records:,} generated people each: "
        f"{found.worlds} for each share, and more where nothing is to be found."
    )
    lines = [
        " ".join([about, *summarize(found)]),
        "",
        "Alarms in percent of the releases of all forms that an attack was tried on, by what was planted.",
        "Of many releases, the share of false alarms is at most as stated in brackets, at 95% confidence:",
        "",
        *_write_table(
            ["attack", *(f"{way} {share:.1%}" for way in PLANTED for share in shares), "false alarms"],
            [[f"`{name}`", *_list_figures(found, shares, PLANTED, attack=name)] for name in list_attacks(found)],
        ),
        "",
        "Unique people by the form of the release, found by any attack, and the two attacks that find 1% most often:",
        "",
        *_write_table(
            ["form", *(f"{share:.1%}" for share in shares), "false alarms", "at 1%"],
            [[form, *_list_figures(found, shares, attack=ANY, form=form), _best(found, form)] for form in forms],
        ),
    ]
    if exposures:
        lines += [
            "",
            "Exposures that earlier versions of a method made, the attack that should find each, and its false alarms",
            "in releases of the same kind that expose no one; in brackets the upper bound at 95% confidence:",
            "",
            *_write_table(
                ["exposure", "attack", "found", "false alarms"],
                [_count_method(found, form, attack) for form, attack in exposures],
            ),
        ]
    peers = sorted({cell.attack for cell in found.cells if cell.attack.startswith(PEER)} - {ALONE})
    if peers:
        lines += ["", *_compare_peer(found, [*peers, ALONE])]
    return "\n".join([*lines, ""])


def _count_method(found: Calibration, form: str, attack: str) -> list[str]:
    """Return a row: how often an attack found what a method exposed, and how often it was wrong."""
    right, false = (count(found, form=form, attack=attack, way=way) for way in (METHOD, NOBODY))
    return [form, f"`{attack}`", str(right), f"{false} ({false.most:.1%})"]


def _compare_peer(found: Calibration, peers: Sequence[str]) -> list[str]:
    """Return the table of anonymeter and, on releases of the same kind, of our attacks together."""
    asked = {(cell.form, cell.way, cell.share) for cell in found.cells if cell.attack == ALONE}
    own = tuple(cell for cell in found.cells if (cell.form, cell.way, cell.share) in asked)
    shares = sorted({share for *_, share in asked})
    runs = count(found, attack=ALONE, share=shares[0], way="unique").runs
    beside = Calibration(found.records, found.worlds, found.seed, own)
    return [
        f"Beside anonymeter, which was asked about {runs} synthetic and plain tables for each share:",
        "",
        *_write_table(
            ["attack", *(f"{share:.0%}" for share in shares), "false alarms"],
            [[name, *_list_figures(beside, shares, attack=name)] for name in (*peers, ANY)],
        ),
    ]


def _list_figures(
    found: Calibration, shares: Sequence[float], ways: Sequence[str] = ("unique",), **wanted: str
) -> list[str]:
    """Return the alarms in percent for every way and share, and how many were false."""
    rates = [count(found, way=way, share=share, **wanted).percent for way in ways for share in shares]
    false = count(found, way=NOBODY, **wanted)
    return [*rates, f"{false} ({false.most:.1%})" if false.runs >= MANY else str(false)]


def _best(found: Calibration, form: str) -> str:
    """Name the two attacks that find one unique person in a hundred most often."""
    rates = {name: count(found, form=form, way="unique", share=0.01, attack=name) for name in list_attacks(found)}
    ordered = sorted((name for name in rates if rates[name].alarms), key=lambda name: -(rates[name].share or 0.0))
    return ", ".join(f"`{name}` {rates[name].percent}" for name in ordered[:2])


def _write_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)]
