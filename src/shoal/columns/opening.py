"""Files in which the values of reversible pseudonyms stand again; they are for the data holder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.columns.keys import read_key, refuse_public
from shoal.columns.reversing import opened_tokens
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.core.strict_json import read_json
from shoal.sources.columns import is_text
from shoal.sources.opening import open_source
from shoal.sources.writers import Format, open_writer


def write_opened(path: Path, column: str, key: Path, out: Path, domain: str | None = None) -> dict[str, Any]:
    """Write the rows of a released file with the values of one column in place of their tokens.

    The new file has the format of the old one, and only its owner may read it. All tokens are of this key and domain
    and unchanged, or nothing is written. Without *domain* it is that of the manifest beside the file, if there is one,
    else the column's name. Returns what was done.
    """
    refuse_public(out)
    form = _same_format(path, out)
    source = open_source(path)
    known = source.schema.names
    if column not in known:
        raise InputError(f"column {column!r} is not in {source.name}{did_you_mean(column, known)}")
    if not is_text(source.schema.field(column).type):
        raise InputError(f"column {column!r} of {source.name} holds no texts, so no tokens")
    said = _technique(path.parent / "manifest.json", column)
    if said.get("reversible") is False:
        raise UsageError(
            f"the manifest says that the pseudonyms of {column!r} are not reversible: no key takes them back. The key "
            "only finds the token of a value that you know: treat it with the same key and domain"
        )
    within = domain or str(said.get("domain", column))
    secret = read_key(key)
    with open_writer(out, source.schema, form, private=True) as writer:
        for batch in source.batches():
            arrays = dict(zip(known, batch.columns, strict=True))
            arrays[column] = opened_tokens(arrays[column], secret, within)
            writer.write(pa.RecordBatch.from_arrays(list(arrays.values()), names=known))
    return {"out": str(out), "rows": writer.rows, "column": column, "domain": within}


def _same_format(path: Path, out: Path) -> Format:
    forms: list[Format] = ["parquet" if file.suffix.lower() in (".parquet", ".pq") else "csv" for file in (path, out)]
    if forms[0] != forms[1] or path.is_dir():
        raise UsageError(f"{out.name} must have the format of {path.name}, a file of rows: give it the same ending")
    return forms[0]


def _technique(manifest: Path, column: str) -> dict[str, Any]:
    """Return what a manifest says of the technique of a column; nothing if there is none that says so."""
    try:
        said = read_json(manifest.read_bytes())["techniques"][column]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return said if isinstance(said, dict) else {}
