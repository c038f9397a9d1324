"""The English of the project, counted: ``python tests/prose.py`` prints how often patterns of translated English occur.

Figures are hits per 1,000 words of a group of texts; the exit code is 1 if a group is above its limit. ``--list GROUP``
prints every hit with its file and line. The patterns are symptoms: write the sentence again, with a person or a thing
as its subject and a plain verb.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = {"guides": 2.0, "messages": 2.0, "docstrings": 2.0, "decisions": 2.0}
PATTERNS = {
    "a clause for a noun": r"\bwhat(?:ever)? (?:is|was|has|no|each|the|it|they)\b",
    "things that speak": r"\b(?:tells?|told|knows|believed)\b",
    "nobody, whoever": r"\b(?:(?:some|any|no|every)body|whoever)\b",
    "that of, those who": r"\b(?:(?:that|those) of|those (?:that|who)|one that)\b",
    "where for if": r"\bwhere (?:a|it|they|there|no|nothing)\b",
    "negated nouns": r"\b(?:(?:is|are) no|has none|nothing is)\b",
    ", so that": r", (?:so that|for the|else)\b",
    "anew, beside": r"\b(?:anew|at once|beside|hardly|commonest|fewest|the least)\b",
    "takes a, stands for": r"\b(?:takes? (?:a|another)|stands? (?:in|on|for))\b",
    "of its own": r"\b(?:of its own|so many|1 less)\b",
}
EXCEPTIONS = {  # phrases that are right, and why
    "is no longer": "an adverb of time",
    "are no longer": "an adverb of time",
    "is no more": "a comparison",
    "are no more": "a comparison",
    "nothing is published": "the end of every refusal",
    "reader who knows": "people know",
    "adversary knows": "people know",
}
HIT = re.compile("|".join(f"({one})" for one in PATTERNS.values()).replace(" ", r"\s+"), re.IGNORECASE)
EXCEPTION = re.compile("|".join(EXCEPTIONS).replace(" ", r"\s+"), re.IGNORECASE)
WORD = re.compile(r"[^\W\d_][\w'-]*")
CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)|https?://\S+", re.DOTALL)
MARKUP = re.compile(r"\{#.*?#\}|<(script|style)\b.*?</\1>|<[^<>]*>|\{[{%].*?[%}]\}", re.DOTALL)
QUOTED = re.compile(r"[\"']([^\"'\n]* [^\"'\n]*)[\"']")
EXAMPLE = re.compile(r"^\s*>>>.*(?:\n[^\n]*\S.*)*", re.MULTILINE)
SQL = re.compile(r"\b(?:SELECT|FROM|WHERE|JOIN|INSERT|CREATE|UPDATE|DELETE|DROP|CASE|WHEN|COALESCE|GROUP BY)\b")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

Text = tuple[str, Path, int, str]  # its group, its file, the line on which it begins, and its words


def blank(found: re.Match[str]) -> str:
    """Return the sentences that an expression of a template quotes, and otherwise only the line ends."""
    kept = " ".join(QUOTED.findall(found[0])) if found[0].startswith(("{{", "{%")) else ""
    return f" {kept} " + "\n" * found[0].count("\n")


def read_pages(group: str, paths: Iterator[Path], code: re.Pattern[str]) -> Iterator[Text]:
    """Yield the text of pages without their code."""
    for path in sorted(paths):
        yield group, path, 1, code.sub(blank, path.read_text(encoding="utf-8"))


def read_module(path: Path) -> Iterator[Text]:
    """Yield the docstrings, comments and messages of a module."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    first = [one.body[0] for one in nodes if isinstance(one, DOCUMENTED) and one.body]
    docstrings = {id(one.value) for one in first if isinstance(one, ast.Expr)}
    parts = {id(part) for one in nodes if isinstance(one, ast.JoinedStr) for part in one.values}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "_" for one in node.values)
        else:
            continue
        if id(node) in docstrings:
            yield "docstrings", path, node.lineno, EXAMPLE.sub(blank, text)
        elif " " in text.strip() and not SQL.search(text):
            yield "messages", path, node.lineno, text
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield "docstrings", path, token.start[0], token.string


def read_texts() -> Iterator[Text]:
    """Yield all texts of the project."""
    yield from read_pages("guides", chain([ROOT / "README.md"], (ROOT / "docs").glob("*.md")), CODE)
    yield from read_pages("decisions", (ROOT / "docs" / "adr").glob("*.md"), CODE)
    yield from read_pages("messages", (ROOT / "src").rglob("*.html"), MARKUP)
    yield from chain.from_iterable(map(read_module, sorted((ROOT / "src").rglob("*.py"))))


def main() -> int:
    """Print the figures, or the hits of one group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", choices=LIMITS, help="print every hit of a group")
    listed = parser.parse_args().list
    words, hits = Counter[str](), {group: Counter[str]() for group in LIMITS}
    for group, path, line, text in read_texts():
        words[group] += len(WORD.findall(text))
        shown = EXCEPTION.sub(blank, text)
        for hit in HIT.finditer(shown):
            hits[group][list(PATTERNS)[(hit.lastindex or 1) - 1]] += 1
            if group == listed:
                near = " ".join(shown[max(hit.start() - 40, 0) : hit.end() + 40].split())
                print(f"{path.relative_to(ROOT)}:{line + shown.count(chr(10), 0, hit.start())}: {near}")
    total = {group: 1000 * hits[group].total() / words[group] for group in LIMITS}
    rows = {name: {group: 1000 * hits[group][name] / words[group] for group in LIMITS} for name in PATTERNS}
    for name, row in ({**rows, "all": total, "limit": LIMITS}).items() if listed is None else ():
        print(f"{name:20}", *(f"{group} {row[group]:5.2f}" for group in LIMITS), sep="  ")
    return int(any(total[group] > limit for group, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
