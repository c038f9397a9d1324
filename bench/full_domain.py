"""Full-domain search on the rows of Adult that ARX publishes its optima for, and on millions like them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measuring import REPEATS, Finished, Measured, command, timed
from bench.peers import Peer, PeerError
from bench.perturbed import write_perturbed
from bench.planning import planner

TRAINING = 32_561  # rows of the training file, of which 30,162 are complete
QUASI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "salary-class")
SENSITIVE = "occupation"
K5: dict[str, Any] = {"k-anonymity": {"k": 5}}
PERTURBED = 3_000_000


@dataclass(frozen=True, slots=True)
class Requirement:
    """What is asked of a release, and the limits of seconds: of the search, and of whole commands on both tables."""

    search: float
    whole: float
    millions: float | None = None
    l: int | None = None
    t: float | None = None
    suppressed: float = 0

    @property
    def stated(self) -> str:
        """The requirement, for people."""
        diverse = f", entropy {self.l}" if self.l else ""
        close = f", t = {self.t:g}" if self.t else ""
        return f"k = 5{diverse}{close}" + (f", {self.suppressed:.0%} withheld" if self.suppressed else "")

    def policy(self) -> dict[str, Any]:
        """Return it as a policy."""
        privacy = [K5]
        if self.l:
            privacy.append({"entropy-l-diversity": {"l": self.l}})
        if self.t:
            privacy.append({"t-closeness": {"t": self.t, "distance": "equal"}})
        return policy(privacy, self.suppressed)

    def fill(self, source: Path, written: Path, out: Path) -> dict[str, object]:
        """Return what the placeholders of a peer's command stand for."""
        from shoal.datasets.uci import adult_hierarchy

        values: dict[str, object] = {"source": source, "policy": written, "out": out.with_suffix(".csv"), "k": 5}
        values |= {"hierarchies": adult_hierarchy(QUASI[0]).parent, "quasi": ",".join(QUASI), "sensitive": SENSITIVE}
        return values | {"l": self.l or "", "t": self.t or "", "suppressed": self.suppressed}


REQUIREMENTS = (
    Requirement(search=0.04, whole=1.2, millions=5),
    Requirement(search=0.4, whole=1.4, l=4, suppressed=0.05),
    Requirement(search=0.7, whole=1.4, millions=5.5, t=0.2, suppressed=0.05),
)


def policy(privacy: list[Mapping[str, Any]], withheld: float) -> dict[str, Any]:
    """Return the policy of ARX's tests: eight quasi attributes with its hierarchies, occupation sensitive."""
    from shoal.datasets.uci import adult_hierarchy

    attributes: dict[str, Any] = {
        name: {"role": "quasi", "taxonomy": {"file": str(adult_hierarchy(name))}} for name in QUASI
    }
    attributes[SENSITIVE] = {"role": "sensitive"}
    method = {"incognito": {"measure": "loss"}}
    return {"attributes": attributes, "privacy": privacy, "method": method, "max_withheld": withheld}


def training() -> Any:
    """Return the complete rows of the training file."""
    from shoal.datasets.uci import adult

    return adult(complete=False).slice(0, TRAINING).drop_null().select([*QUASI, SENSITIVE])


def incognito(folder: Path, peers: Sequence[Peer] = ()) -> Iterator[Measured]:
    """The search in process, and whole commands on Adult and on three million rows from CSV, by turns with peers."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    table, source = training(), folder / "training.csv"
    name = f"incognito, {table.num_rows:,} rows of Adult, 8 quasi"
    for asked in REQUIREMENTS:
        seconds = timed(planner(table, asked.policy()), 2 * REPEATS)
        within = statistics.median(seconds) <= asked.search
        yield Measured(f"{name}, {asked.stated}: search in process", seconds, f"{asked.search} s", within)
    pyarrow.csv.write_csv(table, source)
    for asked in REQUIREMENTS:
        yield from _whole(f"{name}, {asked.stated}", source, asked, peers, (asked.whole, None))
    source.unlink()
    parquet = write_perturbed(folder / "perturbed.parquet", table, PERTURBED, QUASI, seed=3)
    source = folder / "perturbed.csv"
    pyarrow.csv.write_csv(pq.read_table(parquet), source)
    parquet.unlink()
    name = f"incognito, {PERTURBED / 1e6:g} million perturbed rows of Adult, CSV"
    for asked in REQUIREMENTS:
        if asked.millions is not None:
            yield from _whole(f"{name}, {asked.stated}", source, asked, peers, (asked.millions, 1024))
    source.unlink()


def _whole(
    title: str, source: Path, asked: Requirement, peers: Sequence[Peer], limits: tuple[float, int | None]
) -> Iterator[Measured]:
    """Run the command of shoal and those of peers by turns, the first turn for nothing; a peer that fails is told."""
    written, out = source.with_suffix(".json"), source.with_name("out")
    written.write_text(json.dumps(asked.policy()))
    values = asked.fill(source, written, out)
    runs: list[Finished] = []
    theirs: dict[str, list[Finished]] = {peer.name: [] for peer in peers}
    failed: dict[str, str] = {}
    for _ in range((REPEATS if limits[1] is None else 3) + 1):
        runs.append(command(source, written, out))
        for peer in peers:
            if peer.name not in failed:
                try:
                    theirs[peer.name].append(peer.run(values))
                except PeerError as error:
                    failed[peer.name] = str(error)
    seconds, peak = [run.seconds for run in runs[1:]], max(run.peak_mib for run in runs)
    limit = f"{limits[0]} s" + ("" if limits[1] is None else ", 1 GiB")
    within = statistics.median(seconds) <= limits[0] and (limits[1] is None or peak <= limits[1])
    yield Measured(f"{title}: whole command", seconds, limit, within, peak)
    for peer in peers:
        about = {"peer": peer.name, "command": " ".join(peer.command[1:])}
        if peer.name in failed:
            print(f"{peer.name} failed: {failed[peer.name]}", flush=True)
            yield Measured(f"{title}: by {peer.name} (peer)", [], "-", True, None, {**about, "failed": True})
        else:
            ended = theirs[peer.name][1:]
            most = max(run.peak_mib for run in ended)
            yield Measured(f"{title}: by {peer.name} (peer)", [run.seconds for run in ended], "-", True, most, about)
