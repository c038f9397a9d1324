"""A password in an address shows in no message, whichever argument of whichever command it was given for."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from shoal.cli import app
from shoal.core.errors import InputError, UsageError, without_passwords

SECRET = "Zaphod-4711"
ADDRESSES = (
    f"postgresql://ann:{SECRET}@127.0.0.1:1/clinic#stays",
    f"postgresql://127.0.0.1:1/clinic?user=ann&password={SECRET}",
    f"mysql://ann:{SECRET}@127.0.0.1:1/clinic#stays",
)
LONG = {"demo", "agency serve"}  # they begin to work, for they need no file


def arguments() -> list[tuple[tuple[str, ...], list[str]]]:
    """Every argument and option with a value: the words of its command, and all that is typed with it."""

    def walk(command, words):
        below = getattr(command, "commands", None)
        if below is not None:
            return [found for name, child in below.items() for found in walk(child, (*words, name))]
        if words[0] in LONG or " ".join(words) in LONG:
            return []
        taking = [each for each in command.params if not getattr(each, "is_flag", False)]
        return [(words, typed(words, taking, target)) for target in taking]

    def typed(words, taking, target):
        made = list(words)
        for each in taking:
            if each is target or each.required:
                value = "ADDRESS" if each is target else "none.csv"
                made += [value] if each.param_type_name == "argument" else [each.opts[0], value]
        return made

    return walk(typer.main.get_command(app), ())


CASES = arguments()


@pytest.mark.parametrize("words", sorted({words for words, _ in CASES}), ids=" ".join)
def test_no_argument_is_echoed_with_its_password(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, made in enumerate(made for found, made in CASES if found == words):
        address = ADDRESSES[number % len(ADDRESSES)]
        more = ["--json"] if number % 2 else []
        done = CliRunner().invoke(app, [*(address if word == "ADDRESS" else word for word in made), *more])
        assert done.exit_code == 2, done.output
        assert SECRET not in done.output + done.stderr
    assert not [path for path in tmp_path.rglob("*") if SECRET in str(path)]


@pytest.mark.parametrize("mistake", [["audit", "none.csv", "-p", "x", ADDRESSES[0]], [ADDRESSES[0]]])
def test_arguments_that_no_command_takes(mistake):
    done = CliRunner().invoke(app, mistake)
    assert done.exit_code == 2
    assert "postgresql://...@127.0.0.1" in done.stderr
    assert SECRET not in done.output + done.stderr


@pytest.mark.parametrize(
    ("stated", "left"),
    [
        (f"no file postgresql:/ann:{SECRET}@db/clinic", "no file postgresql:/...@db/clinic"),
        (f"no file 'a/postgres:/ann:p@ss {SECRET}@db'; look", "no file 'a/postgres:/...@db'; look"),
        (f"'host=db password={SECRET}' is no file", "'host=db password=...' is no file"),
        (f"x://h/?Password={SECRET}&b=1#t", "x://h/?Password=...&b=1#t"),
        ("column 'e@mail' is not in stays.csv", "column 'e@mail' is not in stays.csv"),
        ("listen on http://127.0.0.1:8321", "listen on http://127.0.0.1:8321"),
    ],
)
def test_what_is_left_out(stated, left):
    assert without_passwords(stated) == left
    assert str(InputError(stated)) == left
    assert InputError(stated).args == (left,)


@pytest.mark.parametrize("long", ["a", "a:/", "@a", "password=a:/"])
def test_long_values_take_no_long_time(long):
    """Each took a time that grows with the square of the length: for these, hours."""
    asked = f"from shoal.core.errors import without_passwords as out; print(len(out({long!r} * 1_000_000)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) <= len(long) * 1_000_000


def test_errors_travel_between_processes():
    stated = pickle.loads(pickle.dumps(UsageError(ADDRESSES[0])))
    assert (type(stated), str(stated)) == (UsageError, "postgresql://...@127.0.0.1:1/clinic#stays")


def test_a_folder_is_not_named_by_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age\n" + "34\n" * 9, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(
        "attributes: {age: {role: quasi}}\nprivacy: [{k-anonymity: {k: 3}}]\n", encoding="utf-8"
    )
    done = CliRunner().invoke(app, ["anonymize", "people.csv", "-p", "policy.yaml", "-o", ADDRESSES[0]])
    assert done.exit_code == 2
    assert done.stderr == (
        "shoal: a database address was given instead of a folder; give a folder, and the address with --to\n"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "policy.yaml"}
