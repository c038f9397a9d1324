"""Each promise of the manifest judged on tables of counts, and the answer in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shoal.core.wording import count_noun
from shoal.verify.engine import CannotCheckError, Engine
from shoal.verify.models import find_model, worst_of
from shoal.verify.promises import Counts, Promise
from shoal.verify.result import CheckedGuarantee

_AGREES = 1e-9
NO_POPULATION = "not checked: its population table is not given"


@dataclass(frozen=True, slots=True)
class Judgement:
    """How classes do by a promise."""

    classes: int
    failing: int = 0
    achieved: float = math.nan
    obstacle: str | None = None  # why it cannot be checked
    open: bool = False  # whether only an input is missing


def judge(engine: Engine, promise: Promise, tables: Iterable[Counts], *, only: int | None = None) -> Judgement:
    """Return how many classes fail a promise, and the worst figure; *only* names one class.

    Each table has the counts of one subject, or of the classes if the model is about sizes.
    """
    model, worst = find_model(promise.model), worst_of(promise)
    if promise.obstacle or model is None or model.statement is None:
        return Judgement(0, obstacle=promise.obstacle or "cannot check: this verifier does not know the model")
    where = "" if only is None else f" WHERE class = {only}"
    classes, failing, figures = 0, 0, []
    try:
        for counts in tables:
            answer = model.statement(promise, counts)
            each = f"(SELECT *, {answer.each} AS ok FROM {answer.relation}{where})"
            found, bad, undecided, rows = engine.fetch_one(
                f"SELECT {answer.achieved}, count(DISTINCT class) FILTER (NOT ok), count(*) FILTER (ok IS NULL),"
                f" count(*) FROM {each}"
            )
            if undecided:
                if model.settle is None or answer.exact is None:
                    raise CannotCheckError(_explain(promise, counts))
                close = f"FROM ({answer.exact}) SEMI JOIN (SELECT class FROM {each} WHERE ok IS NULL) USING (class)"
                bad += sum(not model.settle(promise, one) for one in engine.read(close).to_pylist())
            total = engine.value(f"SELECT count(DISTINCT class) FROM {counts.table}")
            classes, failing = max(classes, int(total)), max(failing, int(bad))
            if rows or found is not None:
                figures.append(float(found))
    except CannotCheckError as fault:
        return Judgement(classes, obstacle=f"cannot check: {fault}")
    return Judgement(classes, failing, worst(figures) if figures else math.nan)


def _explain(promise: Promise, counts: Counts) -> str:
    name = "" if counts.attribute is None else repr(counts.attribute.name)
    if promise.model != "t-closeness":
        return "its frequencies are too fine to be compared exactly"
    if promise.parameters.get("distance") == "hierarchical":
        return f"values of {name} are not in its taxonomy"
    return f"values of {name} have no place in its order"


def answer(promise: Promise, achieved: float | None, ok: bool, detail: str) -> CheckedGuarantee:
    """Return a promise beside what was found."""
    known = None if achieved is None or math.isnan(achieved) else achieved
    return CheckedGuarantee(promise.model, promise.parameters, promise.claimed, known, ok, detail, promise.counts)


def conclude(
    promise: Promise, judgement: Judgement | None, *, uncovered: int = 0, grounds: str = ""
) -> CheckedGuarantee:
    """Return the promise beside what all classes reach; in doubt it does not hold.

    *uncovered* is the number of rows of its population that no class covers.
    """
    if judgement is None:
        return answer(promise, None, False, "an empty release satisfies no guarantee")
    if judgement.open:
        found = answer(promise, None, True, judgement.obstacle or "")
        return replace(found, done=False)
    if judgement.obstacle:
        return answer(promise, None, False, judgement.obstacle)
    model, failing = find_model(promise.model), judgement.failing
    together = model is not None and model.about == "table"
    if uncovered and promise.parameters.get("min", 0) > 0:
        failing = judgement.classes  # a reader knows that people whom no class covers are not in the table
    if failing:
        which = "all classes together fail it" if together else f"{failing} of {judgement.classes} classes fail it"
        return answer(promise, judgement.achieved, False, which)
    if not agrees(promise.claimed, judgement.achieved):
        return answer(promise, judgement.achieved, False, "the manifest's 'achieved' is not the figure of the rows")
    if promise.counts is not None:
        grounds = f", counted by {promise.counts}"
    every = (
        "all classes together satisfy"
        if together
        else f"all {count_noun(judgement.classes, 'class', 'classes')} satisfy"
    )
    return answer(promise, judgement.achieved, True, f"{every} it{grounds}")


def agrees(claimed: float | None, achieved: float) -> bool:
    """Whether the manifest claims the figure that was found."""
    return claimed is not None and math.isclose(claimed, achieved, rel_tol=_AGREES, abs_tol=_AGREES)


def leave_unchecked(promises: Sequence[Promise]) -> tuple[CheckedGuarantee, ...]:
    """Return promises that were not judged because another check failed first."""
    return tuple(answer(promise, None, False, "not checked") for promise in promises)
