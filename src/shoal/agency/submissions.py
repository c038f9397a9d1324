"""What is sent to an agency's service: campaigns, counts of records by the agreed domain, registrations of releases.

Rows of people are never part of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from shoal.agency.distribution import WEIGHTS, count_records
from shoal.agency.domain import Domain
from shoal.agency.tables import code_rows
from shoal.core.documents import load_with_lines, read_json, read_text
from shoal.core.errors import InputError, PolicyError, UsageError, VerificationError, did_you_mean
from shoal.core.progress import Progress
from shoal.release.forms.agreed import read_plan
from shoal.sources.base import file_digest
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import texts, whole_numbers
from shoal.verify.reading import public_folder
from shoal.verify.verifier import verify

REQUIRED = ("name", "quasi", "sensitive", "delta")
OPTIONAL = ("promise", "l", "k", "eta", "order", "arrangement", "records")
MOST_NUMBERS = 100_000
_WHOLE = re.compile("-?[0-9]{1,9}")


def count_by_domain(data: object, domain: Domain) -> dict[str, Any]:
    """Count the records of a table by the domain, for a contribution; one outside of it is an error by column.

    >>> domain = Domain.of({"quasi": [{"name": "sex", "values": ["F", "M"]}],
    ...                     "sensitive": {"name": "illness", "values": ["flu", "gout"]}})
    >>> count_by_domain(pa.table({"sex": ["M", "F", "F"], "illness": ["flu", "gout", "gout"]}), domain)
    {'columns': ['sex', 'illness', 'count'], 'rows': [['F', 'gout', 2], ['M', 'flu', 1]]}
    """
    return read_counts(count_records(data, domain.names[:-1], domain.names[-1]), domain)


def read_counts(data: object, domain: Domain, *, probabilities: bool = False) -> dict[str, Any]:
    """Read a table of counts by the domain as it is sent; with *probabilities* its last column may be that instead.

    Rows with 0 are kept: in a large domain they say that a combination belongs to it. Rows are in the order of the
    domain's values, so that nothing is given by theirs.
    """
    source = open_source(data)
    known = WEIGHTS if probabilities else WEIGHTS[:1]
    given = [name for name in known if name in source.schema.names]
    if len(given) != 1:
        wanted = " or ".join(f"`{name}`" for name in known)
        raise InputError(f"{source.name} needs one column {wanted}; if it has a row per person, give it as --data")
    names = [*domain.names, given[0]]
    if further := [name for name in source.schema.names if name not in names]:
        raise InputError(f"{source.name} has columns that the campaign has not: {', '.join(map(repr, further))}")
    table = pa.Table.from_batches(list(source.batches(names)))
    *columns, weights = (texts(table.column(name).combine_chunks()) for name in names)
    if given == ["count"]:
        numbers, valid = whole_numbers(weights)
        if wrong := int((~valid | (numbers < 0)).sum()):
            raise InputError(f"column 'count' of {source.name}: {wrong:,} values are no whole numbers from 0 on")
        weights = pa.array(numbers)
    elif missing := weights.null_count:
        raise InputError(f"column 'probability' of {source.name} has {missing:,} missing values; every row needs one")
    coded = code_rows(columns, weights, domain, source.name)
    order = pc.sort_indices(coded, sort_keys=[(name, "ascending") for name in coded.column_names[:-1]])
    cells = [column.take(order).to_pylist() for column in (*columns, weights)]
    return {"columns": names, "rows": list(map(list, zip(*cells, strict=True)))}


def count_rows(data: object) -> int:
    """Return how many rows a table has."""
    source = open_source(data)
    if source.n_rows is not None:
        return source.n_rows
    return sum(batch.num_rows for batch in source.batches(source.schema.names[:1]))


def read_campaign(path: Path) -> dict[str, Any]:
    """Return the body that opens the campaign of a YAML file; only what must be known here is checked here.

    ``quasi`` maps every quasi column to its values, in the order of importance: a list, or ``{from: 0, through: 105}``
    for whole numbers. ``sensitive`` maps the one sensitive column to its values.
    """
    text = read_text(path)
    document, _ = load_with_lines(text, path.name)
    if not isinstance(document, dict):
        raise PolicyError(f"{path.name} is no campaign: it must have the keys {', '.join(REQUIRED)}")
    if absent := [key for key in REQUIRED if key not in document]:
        raise PolicyError(f"{path.name} lacks {', '.join(map(repr, absent))}, which every campaign has")
    if not {"l", "k"} & set(document):
        raise PolicyError(f"{path.name} lacks 'l', the number that is promised, or 'k' for k-delta-anonymity")
    for key in document:
        if key not in (*REQUIRED, *OPTIONAL):
            hint = did_you_mean(key, (*REQUIRED, *OPTIONAL))
            raise PolicyError(f"{path.name} has the key {key!r}, which campaigns have not{hint}")
    # Values are texts as they stand there: 010 is no 8, and yes no truth.
    written = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it knows nothing but texts, lists and mappings
    quasi, sensitive = (_read_columns(written[key], key, path.name) for key in ("quasi", "sensitive"))
    if len(sensitive) != 1:
        raise PolicyError(f"{path.name}: 'sensitive' must have one column, got {len(sensitive)}")
    rest = {key: value for key, value in document.items() if key not in ("quasi", "sensitive")}
    return {**rest, "domain": {"quasi": quasi, "sensitive": sensitive[0]}}


def _read_columns(entries: Any, key: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(entries, dict) or not entries:
        raise PolicyError(f"{where}: {key!r} must map columns to their values")
    return [
        {"name": name, "values": _expand_values(given, f"{where}: {key}.{name}")} for name, given in entries.items()
    ]


def _expand_values(given: Any, where: str) -> list[str]:
    if isinstance(given, dict) and set(given) == {"from", "through"}:
        ends = [given["from"], given["through"]]
        if all(isinstance(end, str) and _WHOLE.fullmatch(end) for end in ends):
            first, last = map(int, ends)
            if first <= last < first + MOST_NUMBERS:
                return [str(number) for number in range(first, last + 1)]
        raise PolicyError(f"{where} must go from a whole number through a larger one, {MOST_NUMBERS:,} of them at most")
    if isinstance(given, list) and given and all(isinstance(value, str) for value in given):
        return given
    raise PolicyError(f"{where} must be a list of values, or {{from: 0, through: 105}} for whole numbers")


def make_registration(folder: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Verify a release by a plan and return what registers it; one that does not hold is refused.

    With it go its counts of classes by values, which say what its rows say.
    """
    public = public_folder(folder)
    verification = verify(public, progress=progress)
    if not verification.verified:
        raise VerificationError(f"{folder} does not hold what it promises: {'; '.join(verification.failures)}")
    try:
        manifest = read_json((public / "manifest.json").read_bytes())
        files = {path.name: file_digest(path) for path in sorted(public.iterdir())}
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or 'input or output error'}") from None
    if not isinstance(manifest.get("agreed"), dict):
        raise UsageError(f"{folder} was not made by an agency's plan; make it with shoal agency apply")
    plan = read_plan(public / manifest["agreed"]["file"])
    domain = Domain.of_classes(plan.classes, plan.sensitive, list(plan.sensitive_values))
    counts = count_by_domain(public / manifest["data"]["file"], domain)
    return {"manifest": manifest, "files": files, "counts": counts}
