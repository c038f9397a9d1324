"""The views of releases, audits and taxonomies in a notebook, and the display of progress there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from shoal.core.progress import Progress, Silent, Step, register
from shoal.core.wording import count_noun, model_text, parameters_text, percent
from shoal.reports.plots import DARK, LIGHT, class_sizes, colour_variables, plot_style, release_plots
from shoal.reports.templates import render
from shoal.utility.base import list_figures
from shoal.utility.marginals import describe_marginals

if TYPE_CHECKING:
    from shoal.audit.result import Audit
    from shoal.release.release import Release
    from shoal.taxonomies.tree import Taxonomy

PAUSE = 0.1  # seconds between two writings of progress
MOST_NODES = 300  # of a taxonomy
_MOST_CHILDREN = 40  # of one node
_MOST_OPEN = 12  # children of the root that are shown without unfolding it
_MOST_STEPS = 6  # recent steps that are shown in addition to all running ones
_MOST_SETS = 10


def render_output(template: str, **content: Any) -> Markup:
    colours = {"light": colour_variables(LIGHT), "dark": colour_variables(DARK)}
    return render(template, plot_style=plot_style(), **colours, **content)


@register("release")
def show_release(release: Release) -> str:
    """Return the view of a release with its guarantees, findings and plots, but without its rows."""
    form, evidence = release.form, release.evidence
    return render_output(
        "notebook_release.html",
        release=release,
        form=form,
        manifest=form.manifest,
        evidence=evidence,
        promises=[
            (
                model_text(one),
                parameters_text(one["parameters"]),
                _number(one["achieved"]),
                "holds" if one["ok"] else "fails",
            )
            for one in evidence["verification"]["guarantees"]
        ],
        claims=[(one.model, parameters_text(one.parameters)) for one in form.manifest.claims],
        findings=[(one.severity, one.id, one.text, one.accepted or "no") for one in release.findings],
        plots=release_plots(evidence),
        kept=describe_marginals(evidence["marginals"]),
        utility=[(name, title, _number(value)) for name, title, value in list_figures(evidence["utility"])],
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"


@register("audit")
def show_audit(audit: Audit) -> str:
    """Return the view of an audit: the risks of the original table."""
    return render_output(
        "notebook_audit.html",
        audit=audit,
        models=[
            (
                verdict.model.name,
                parameters_text(verdict.model.model_dump(mode="json", exclude_none=True)),
                f"{verdict.achieved:,.4g}" if math.isfinite(verdict.achieved) else "–",
                "holds" if verdict.holds else f"missed by {count_noun(verdict.records_missed, 'record')}",
            )
            for verdict in audit.models
        ],
        sensitive=[(one.attribute, f"{one.certain_records:,}", f"{one.entropy_l:,.3g}") for one in audit.sensitive],
        plot=class_sizes(None, audit.class_sizes),
        sets=[
            (", ".join(one.attributes), f"{one.unique_records:,}", percent(one.unique_share))
            for one in audit.sets[:_MOST_SETS]
        ],
    )


@register("taxonomy")
def show_taxonomy(taxonomy: Taxonomy) -> str:
    """Return the tree with as many upper levels as fit, and the number of omitted nodes."""
    waiting, shown, n_left = [taxonomy.root], dict[int, tuple[int, ...]](), MOST_NODES
    while waiting and n_left > 0:
        node, *waiting = waiting
        shown[node] = taxonomy.children(node)[: min(_MOST_CHILDREN, n_left)]
        n_left -= len(shown[node])
        waiting += [child for child in shown[node] if not taxonomy.is_leaf(child)]
    return render_output("notebook_taxonomy.html", taxonomy=taxonomy, shown=shown, most_open=_MOST_OPEN)


@dataclass(slots=True, eq=False)
class _Bar:
    """One step of a run and its progress."""

    title: str
    total: int | None
    unit: str
    bars: Bars
    done: int = 0
    ended: bool = False

    def advance(self, amount: int) -> None:
        self.done += amount
        self.bars.show()

    @property
    def known(self) -> int | None:
        return self.done if self.ended else self.total

    @property
    def state(self) -> str:
        if self.ended:
            return f"{self.done:,} {self.unit}, done" if self.done else "done"
        return f"{self.done:,} {self.unit}" if self.total is None else f"{self.done:,} of {self.total:,} {self.unit}"


@dataclass(slots=True, eq=False)
class Bars:
    """A display of the last steps of a run, in one output that is refreshed at most ten times a second."""

    _steps: list[_Bar] = field(default_factory=list)
    _handle: Any = None
    _written: float = float("-inf")

    @contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Step]:
        """Show one step; it counts as done only if it raises no error."""
        bar = _Bar(title, total, unit, self)
        self._steps.append(bar)
        self.show()
        yield bar
        bar.ended = True
        self.show()

    def show(self, *, at_once: bool = False) -> None:
        """Refresh the display unless that happened just now."""
        now = time.monotonic()
        if at_once or now - self._written >= PAUSE:
            self._written = now
            running = [bar for bar in self._steps[:-_MOST_STEPS] if not bar.ended]
            steps = [*running, *self._steps[-_MOST_STEPS:]]
            self._write(render_output("notebook_progress.html", steps=steps) if steps else "")

    def clear(self) -> None:
        if self._handle is not None:
            self._write("")

    def _write(self, html: str) -> None:
        screen: Any = import_module("IPython.display")  # has no types
        if self._handle is None:
            self._handle = screen.display(screen.HTML(html), display_id=True)
        else:
            self._handle.update(screen.HTML(html))


_running: list[Bars] = []  # at most one: a run inside another run is not shown


@register("progress")
@contextmanager
def show_progress() -> Iterator[Progress]:
    """Yield bars that disappear when the run has ended; if it fails, they stay."""
    if _running:
        yield Silent()
        return
    shown = Bars()
    _running.append(shown)
    try:
        yield shown
    except BaseException:
        shown.show(at_once=True)
        raise
    else:
        shown.clear()
    finally:
        _running.clear()
