"""What a run is asked for, and everything that it opens before it counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from shoal.anonymize.refusing import refuse_policy
from shoal.audit.marginals import SourceTables
from shoal.core.errors import UsageError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.engines.local import CountedCells, LocalEngine
from shoal.engines.regions.budget import Budget
from shoal.linking.ledger.records import LedgerOptions
from shoal.methods.auto import Choice
from shoal.methods.base import AnyPlan, Method
from shoal.policy.encoding import Encoding, check_columns, open_populations
from shoal.policy.policy import Policy
from shoal.policy.preparing import chance_of, change_source, unfold_baskets
from shoal.release.forms.base import publish_plan
from shoal.release.publication import Publication
from shoal.release.release import refuse_existing
from shoal.sources.addresses import DatabaseTable, is_address
from shoal.sources.base import Source
from shoal.sources.writers import Format
from shoal.utility.marginals import check_weights

if TYPE_CHECKING:
    from shoal.release.signing import SigningKey

Detail = Literal["quick", "full"]
Admit: TypeAlias = Callable[[CountedCells], None]  # raises if the counted records must not be published
Publish: TypeAlias = Callable[[Policy, Source, CountedCells, Encoding, AnyPlan], Publication]


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of a run beyond its table and its policy."""

    out: Path | None = None
    overwrite: bool = False  # whether to replace an earlier release in that folder
    format: Format | None = None  # None: the table's format
    seed: int | None = None
    detail: Detail = "quick"
    ledger: LedgerOptions | None = None
    to: str | DatabaseTable | None = None
    budget: Budget = field(default_factory=Budget.of)
    strict: bool = False  # whether open high findings prevent the publication
    signing: SigningKey | None = None
    admit: Admit | None = None
    publish: Publish = publish_plan
    tables: SourceTables | None = None  # to compare the release with; None: tables of all columns of the source


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """An opened table with its policy: the input of every step."""

    asked: Policy  # as the user wrote it
    policy: Policy  # after sampling, techniques and baskets; later with the method that ``auto`` chose
    given: Source
    source: Source  # after sampling, techniques and baskets
    populations: Mapping[str, Source]
    options: Options
    format: Format
    to: DatabaseTable | None
    engine: LocalEngine
    chance: Chance
    progress: Progress
    held: ExitStack  # temporary files that are removed when the run ends
    seconds: dict[str, float]  # of each step
    choice: Choice | None = None  # by ``auto``

    @property
    def method(self) -> Method:
        """The method of the policy, or the choice of ``auto``."""
        return self.asked.method if self.choice is None else self.choice.method

    @property
    def dealing(self) -> Chance:
        """The chance that assigns records to classes and shuffles them.

        With a seed it depends on the policy. Otherwise two releases could be joined row by row.
        """
        return chance_of(self.policy, self.chance, "rows ")

    @property
    def beside(self) -> Path | None:
        """The folder of large temporary files: the one in which the release is written."""
        return _find_beside(self.options.out)

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Record the seconds that a step takes."""
        began = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - began, 3)


def open_run(
    data: object,
    policy: str | Path | Mapping[str, Any] | Policy,
    options: Options,
    progress: Progress,
    engine: LocalEngine,
    held: ExitStack,
) -> Run:
    """Open everything that the run needs, and refuse a run that could not finish."""
    asked = Policy.load(policy)
    refuse_policy(asked)
    if asked.units and not engine.keeps_order:
        raise UsageError("Spark does not keep rows in order, so people cannot be counted; use the local engine")
    if options.out is not None:
        refuse_existing(options.out, overwrite=options.overwrite)
    table = None
    if options.to is not None:
        from shoal.sources.databases.tables import destination_table  # databases are loaded only if they are used

        table = destination_table(options.to, options.out, options.format)
    if options.ledger is not None:
        from shoal.linking.ledger.entering import check_ledger  # it loads all of linking

        check_ledger(options.ledger, options.out)
    began = time.perf_counter()
    given = engine.open(data, asked.source, held)
    seconds = {"open": round(time.perf_counter() - began, 3)}
    check_columns(asked, given)
    if given.parses:
        given = _keep(given, asked, options.out)
    if asked.survey_weight is not None:
        check_weights(given, asked.survey_weight)
    chance = Chance.of(options.seed, given.digest() if options.seed is not None else "")
    changed, source = unfold_baskets(*change_source(asked, given, chance))
    return Run(
        asked=asked,
        policy=changed,
        given=given,
        source=source,
        populations=open_populations(asked),
        options=options,
        format="parquet" if table is not None else options.format or same_format(data),
        to=table,
        engine=engine,
        chance=chance,
        progress=progress,
        held=held,
        seconds=seconds,
    )


def _keep(source: Source, policy: Policy, out: Path | None) -> Source:
    """Keep the codes of a delimited file, which is then parsed only once; unpublished identifiers are not kept."""
    from shoal.sources.snapshots import KeptSource  # other sources do not need it

    identifiers = {name for name in policy.names("identifier") if name not in policy.techniques}
    columns = set(policy.attributes) - identifiers | set(policy.units.values())
    return KeptSource.of(source, columns, (*policy.names("quasi"), *policy.names("sensitive")), _find_beside(out))


def _find_beside(out: Path | None) -> Path | None:
    return None if out is None or not out.parent.is_dir() else out.parent


def same_format(data: object) -> Format:
    """Return the format of a release that resembles its source."""
    if not isinstance(data, str | Path) or is_address(data):
        return "parquet"
    path = Path(data)
    return "parquet" if path.is_dir() or path.suffix.lower() in (".parquet", ".pq") else "csv"
