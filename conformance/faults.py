"""Faults that take more than an entry of ``faults.yaml``, which states for every fault the check that must object."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from conformance.changes import Spoil, combine_changes, keep_digests, replace_values, set_entry, set_limit, write_file
from conformance.drafts import Draft, hash_file

Lines = list[list[str]]
QUASI = ("age", "zip", "sex")
TOWNS = ["Celle", "Kiel", "Bonn", "Ulm"]
# Checks that compare the release with its source, or with the evidence that stays with the data holder.
OF_SOURCE = (
    *("defended", "order", "parts", "permuted", "recorded", "resolution", "sample", "source counts"),
    *("spelling", "true values", "truth", "values", "withheld", "witness"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of an honest release, and the verdict that follows."""

    name: str
    base: str
    why: str
    verdict: str
    check: str | None
    source: bool  # whether the case has the source and the internal folder
    spoil: Spoil


def read_faults() -> list[Fault]:
    """Return the faults of ``faults.yaml``."""
    document = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text("utf-8"))
    return [read_fault(name, base, entry) for base, named in document.items() for name, entry in named.items()]


def read_fault(name: str, base: str, entry: Mapping[str, Any]) -> Fault:
    """Return a fault; the first key of its entry is the check, after "incomplete" perhaps, or "verified"."""
    first, why = next(iter(entry.items()))
    check = first.removesuffix("+")
    verdict = "verified" if check == "verified" else "incomplete" if check.startswith("incomplete ") else "failed"
    named = None if verdict == "verified" else check.removeprefix("incomplete ")
    spoil = combine_changes(entry["changes"]) if "changes" in entry else SPOILS[name]
    return Fault(name, base, why, verdict, named, first.endswith("+") or named in OF_SOURCE, spoil)


def edit_lines(change: Callable[[Lines], Any], name: str = "data.csv") -> Spoil:
    """Change the lines of a CSV file in place; the header comes first."""

    def spoil(draft: Draft) -> None:
        with draft.edit_lines(name) as lines:
            change(lines)

    return spoil


def edit_field(column: int, change: Callable[[str], str]) -> Spoil:
    """Change a field of the first row."""
    return edit_lines(lambda lines: lines[1].__setitem__(column, change(lines[1][column])))


def edit_witness(change: Callable[[list[int]], list[int]]) -> Spoil:
    """Change the numbers of the witness."""
    return lambda draft: draft.edit_numbers(change)


def edit_hidden(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Spoil:
    """Change the values under labels."""
    return lambda draft: draft.edit_labels(change)


def edit_plan(*, sealed: bool = True, **entries: Any) -> Spoil:
    """Change entries of an agency's plan; a *sealed* plan has the digest of its new content."""

    def spoil(draft: Draft) -> None:
        plan = json.loads((draft.public / "plan.json").read_bytes()) | entries
        if sealed:
            rest = {key: value for key, value in plan.items() if key != "digest"}
            text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
            plan["digest"] = hashlib.sha256(text.encode()).hexdigest()
        write_file(draft, "plan.json", json.dumps(plan))
        draft.manifest["agreed"]["digest"] = plan["digest"]

    return spoil


def raise_promise(model: str, parameter: str, value: float) -> Spoil:
    """Let the plan and the guarantee promise more than the classes have."""

    def spoil(draft: Draft) -> None:
        edit_plan(promise={"model": model, parameter: value})(draft)
        set_limit(draft, parameter, value)

    return spoil


def swap_rows(same: list[str], other: list[str], *columns: str) -> Spoil:
    """Exchange values of two rows that agree in some columns and differ in others."""
    return lambda draft: draft.swap(*draft.find_pair(same, other), *columns)


def remove_row(draft: Draft) -> None:
    with draft.edit_lines() as lines:
        del lines[draft.find_largest_class(*QUASI)[0]]
    draft.manifest["rows"] -= 1


def repeat_row(draft: Draft) -> None:
    first, second, *_ = draft.find_largest_class(*QUASI)
    with draft.edit_lines() as lines:
        lines[first] = lines[second]


def narrow_label(draft: Draft) -> None:
    entry = draft.manifest["attributes"]["age"]
    del entry["labels"]["[20, 39]"]
    entry["labels"]["[20, 29]"] = {"from": 20, "below": 30}
    replace_values(draft, 0, "[20, 39]", "[20, 29]")


def mix_levels(draft: Draft) -> None:
    entry = draft.manifest["attributes"]["age"]
    entry["labels"]["[20, 29]"] = {"from": 20, "below": 30}
    replace_values(draft, 0, "[20, 39]", "[20, 29]", [2, "f"])


def add_label(draft: Draft) -> None:
    entry = draft.manifest["attributes"]["age"]
    entry["labels"]["[0, 19]"] = {"from": 0, "below": 20}


def shorten_year(draft: Draft) -> None:
    labels = draft.manifest["attributes"]["joined"]["labels"]
    year = next(label for label in labels if label.isdigit())
    labels[year] = {"from": f"{int(year) - 1}-01-01", "below": labels[year]["below"]}


def pack_labels(shift: int = 0) -> Spoil:
    """List the values of towns once; places may be *shift* too large."""

    def spoil(draft: Draft) -> None:
        entry = draft.manifest["attributes"]["town"]
        runs = {town: [place, place + 1] for place, town in enumerate(TOWNS)} | {"north": [0, 2], "south": [2, 4]}
        packed = {label: [end + shift for end in ends] for label, ends in runs.items() if label in entry["labels"]}
        entry["labels"] |= packed
        entry["values"] = TOWNS

    return spoil


def change_readme(draft: Draft) -> None:
    write_file(draft, "README.md", "A release.\n")
    draft.manifest["readme"] = {"sha256": hash_file(draft.public / "README.md")}
    write_file(draft, "README.md", "Another release.\n")


def add_script(draft: Draft) -> None:
    write_file(draft, "report.html", "<p>Release</p><script>alert(1)</script>\n")
    draft.manifest["report"] = {"sha256": hash_file(draft.public / "report.html")}


def rotate_rows(name: str) -> Spoil:
    """Move the first row of a file to its end, and leave the digest as it was."""

    def spoil(draft: Draft) -> None:
        with draft.edit_lines(name) as lines:
            lines.append(lines.pop(1))
        keep_digests(draft, "data")

    return spoil


def add_column(lines: Lines) -> None:
    for number, line in enumerate(lines):
        line.append(f"person {number}")


def move_column(lines: Lines) -> None:
    for line in lines:
        line.append(line.pop(-2))


def add_hidden_bytes(draft: Draft) -> None:
    path = draft.public / "data.parquet"
    content = path.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:end] + b"person 7" + content[end:])


def add_dictionary_entry(draft: Draft) -> None:
    table = pq.read_table(draft.public / "data.parquet")
    ward = table.column("ward").combine_chunks().dictionary_encode()
    own = pa.DictionaryArray.from_arrays(ward.indices, pa.concat_arrays([ward.dictionary, pa.array(["person 7"])]))
    draft.rewrite_parquet(table.set_column(table.column_names.index("ward"), "ward", own))


def add_metadata(draft: Draft) -> None:
    path = draft.public / "data.parquet"
    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema, store_schema=False, write_statistics=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"origin": "source.csv"})


def change_creator(draft: Draft) -> None:
    path = draft.public / "data.parquet"
    name = pq.ParquetFile(path).metadata.created_by.encode()
    path.write_bytes(path.read_bytes().replace(name, b"person 7 has a stroke".ljust(len(name))))


def publish_twice(draft: Draft) -> None:
    """Publish another record of a person in place of someone else's record of the same class."""
    rows, numbers = draft.read_source(), pq.read_table(draft.witness).column(0).to_pylist()
    labels = draft.manifest["attributes"]["age"]["labels"]
    shown = {row["name"]: place for place, row in enumerate(rows) if numbers[place]}
    for hidden in (place for place, number in enumerate(numbers) if not number):
        row = rows[hidden]
        for place in (place for name, place in shown.items() if name != row["name"]):
            other = rows[place]
            # the n-th pair of labels has the number 1 + age * (sexes + 2) + sex
            age = list(labels)[(numbers[place] - 1) // (len(draft.manifest["attributes"]["sex"]["labels"]) + 2)]
            alike = row["sex"] == other["sex"] and row["illness"] != other["illness"]
            if alike and labels[age]["from"] <= int(row["age"]) < labels[age]["below"]:
                with draft.edit_lines() as lines:
                    lines[lines.index([age, other["sex"], other["illness"]])][2] = row["illness"]
                numbers[hidden], numbers[place] = numbers[place], 0
                draft.edit_numbers(lambda _: numbers)
                return
    raise LookupError("no such records")


def drop_internal(draft: Draft) -> None:
    shutil.rmtree(draft.folder / "internal")


def reverse_source(draft: Draft) -> None:
    draft.write_source(draft.read_source()[::-1])


def keep_order(step: int) -> Spoil:
    """Put rows in the order of the source, or its reverse; wages distinguish them."""

    def spoil(draft: Draft) -> None:
        place = {row["wage"]: number for number, row in enumerate(draft.read_source())}
        with draft.edit_lines() as lines:
            lines[1:] = sorted(lines[1:], key=lambda line: step * place[line[lines[0].index("wage")]])

    return spoil


def spell_out_missing(draft: Draft) -> None:
    draft.manifest["missing"]["tokens"] = ["", "?"]
    with draft.edit_lines() as lines:
        next(line for line in lines if line[-1] == "")[-1] = "?"


def widen_class(moved: int) -> Spoil:
    """Call class b a class of all values, and publish so many records of class a there, too."""

    def spoil(draft: Draft) -> None:
        draft.manifest["attributes"]["group"]["labels"] = {"a": {"values": ["a"]}, "*": {"any": True}}
        first = draft.read_source()[0]
        with draft.edit_lines() as lines:
            own = lines.index([first["group"], first["illness"]])
            for number, line in enumerate(lines[1:], 1):
                line[0] = "*" if line[0] == "b" or (moved and number == own) else line[0]
        draft.edit_numbers(lambda numbers: [numbers[0] + moved, *numbers[1:]])

    return spoil


def link_parts(draft: Draft) -> None:
    pairs = zip(pq.read_table(draft.witness).column(0).to_pylist(), draft.read_source(), strict=True)
    with draft.edit_lines() as lines:
        people = [[str(bucket), *(person[name] for name in lines[0][1:])] for bucket, person in pairs]
        random.Random(1).shuffle(people)
        lines[1:] = sorted(people, key=lambda line: int(line[0]))


def swap_buckets(lines: Lines) -> None:
    other = next(line for line in lines[1:] if line[0] != lines[1][0] and line[-1] != lines[1][-1])
    other[-1], lines[1][-1] = lines[1][-1], other[-1]


def raise_last(lines: Lines) -> None:
    for line in [line for line in lines if line[0] == lines[-1][0]]:
        line[0] = str(int(line[0]) + 1)


def reverse_items(lines: Lines) -> None:
    line = next(line for line in lines[1:] if line[1].count(";") == 1)
    line[1] = ";".join(reversed(line[1].split(";")))


def move_average(value: str) -> Spoil:
    """Change the average age of a group."""

    def change(lines: Lines) -> None:
        for line in [line for line in lines if line[0] == lines[1][0]]:
            line[0] = value

    return edit_lines(change)


def vary_spelling(lines: Lines) -> None:
    for number, line in enumerate(line for line in lines if line[0] == "a"):
        line[1] = ("Flu", " flu", "flu")[number % 3]


def change_value(lines: Lines) -> None:
    next(line for line in lines if line[0] == "1" and line[2] == "cold")[2] = "gout"


def make_alike(draft: Draft) -> None:
    rows, numbers = draft.read_source(), pq.read_table(draft.witness).column(0).to_pylist()
    for row in (row for row, number in zip(rows, numbers, strict=True) if number == numbers[0]):
        row["illness"] = "flu"
    draft.write_source(rows)


def merge_people(draft: Draft) -> None:
    draft.write_source([{**row, "name": f"person {int(row['name'][7:]) % 5}"} for row in draft.read_source()])


def lower_delta(draft: Draft) -> None:
    for path in (["method_parameters"], ["synthetic"], ["synthetic", "spent"], ["claims", 0, "parameters"]):
        set_entry(draft, *path, "delta", 1e-9)


SPOILS: dict[str, Spoil] = {
    "row-removed": edit_lines(lambda lines: lines.pop()),
    "row-removed-and-uncounted": remove_row,
    "row-repeated": repeat_row,
    "labels-swapped": swap_rows(["illness"], ["age", "zip"], *QUASI),
    "sensitive-values-swapped": swap_rows([], ["age", "illness"], "illness"),
    "label-unused": add_label,
    "value-uncovered": narrow_label,
    "digest-wrong": rotate_rows("data.csv"),
    "readme-changed": change_readme,
    "report-with-script": add_script,
    "csv-number-spelled-differently": edit_field(5, lambda text: f"{text}0"),
    "column-undeclared": edit_lines(add_column),
    "columns-unsorted": edit_lines(move_column),
    "without-internal-folder": drop_internal,
    "witness-of-another-table": edit_witness(lambda numbers: [*numbers[7:], *numbers[:7]]),
    "witness-too-short": edit_witness(lambda numbers: numbers[:-1]),
    "witness-of-unknown-classes": edit_witness(lambda numbers: [10**6 + number for number in numbers]),
    "witness-moves-a-row": edit_witness(lambda n: [next(one for one in n if one != n[0]), *n[1:]]),
    "source-reordered": reverse_source,
    "parquet-created-by": change_creator,
    "one-per-person-twice": publish_twice,
    "parquet-metadata": add_metadata,
    "parquet-hidden-bytes": add_hidden_bytes,
    "parquet-unused-dictionary-entry": add_dictionary_entry,
    "labels-packed": pack_labels(),
    "labels-packed-beyond-the-list": pack_labels(shift=1),
    "date-contradicts-cover": shorten_year,
    "source-order-kept": keep_order(1),
    "source-order-reversed": keep_order(-1),
    "missing-value-spelled-out": spell_out_missing,
    "level-mixed": mix_levels,
    "hidden-value-too-frequent": edit_hidden(lambda rows: [{**row, "value of illness": "flu"} for row in rows]),
    "hidden-records-too-few": edit_hidden(lambda rows: rows[1:]),
    "hidden-value-uncovered": edit_hidden(lambda rows: [{**rows[0], "value of illness": "stroke"}, *rows[1:]]),
    "wider-class": widen_class(0),
    "wider-class-than-necessary": widen_class(1),
    "units-too-few": merge_people,
    "items-unsorted": edit_lines(reverse_items),
    "buckets-with-a-gap": edit_lines(raise_last),
    "buckets-unsorted": edit_lines(lambda lines: lines.insert(1, lines.pop())),
    "slice-value-in-another-bucket": edit_lines(swap_buckets),
    "slice-witness-wrong": edit_witness(lambda numbers: [*numbers[5:], *numbers[:5]]),
    "slice-parts-linked": link_parts,
    "overlap-differs": edit_field(3, lambda sex: "fm"[sex == "f"]),
    "anatomy-diversity-violated": edit_lines(lambda lines: lines[1].__setitem__(-1, lines[2][-1])),
    "anatomy-table-digest-wrong": rotate_rows("quasi.csv"),
    "average-off-grid": move_average("49.75"),
    "average-outside": move_average("119"),
    "rounded-number-spelled-differently": edit_field(-1, lambda text: f"0{text}"),
    "true-values-alike": make_alike,
    "token-of-another-form": edit_field(3, str.lower),
    "plan-altered": edit_plan(sealed=False, delta=0.8),
    "plan-with-a-point-twice": edit_plan(points=[[1, *range(1, 30)]]),
    "plan-of-more-records": edit_plan(n=90, records=90),
    "class-of-another-value": edit_lines(change_value),
    "agency-k-violated": raise_promise("k-delta-anonymity", "k", 9),
    "agency-entropy-violated": raise_promise("entropy-l-delta-diversity", "l", 2.9),
    "synthetic-delta-too-small": lower_delta,
    "spelling-variants": edit_lines(vary_spelling),
    "t-closeness-exceeded-by-one-row": edit_lines(
        lambda lines: lines[lines.index(["a", "gout"])].__setitem__(1, "flu")
    ),
}
