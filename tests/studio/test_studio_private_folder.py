"""The private folder: nobody else reads it, it goes at the end, and those of killed studios go at the next start."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time

from shoal.studio.studio import PrivateFolder, remove_stale

HOLDING = """
import sys, time
from pathlib import Path
from shoal.studio.studio import PrivateFolder
print(PrivateFolder(Path(sys.argv[1])).path, flush=True)
time.sleep(60)
"""


def test_a_private_folder_is_private_and_goes(tmp_path):
    with PrivateFolder(tmp_path) as private:
        assert stat.S_IMODE(private.path.stat().st_mode) == 0o700
        (private.path / "deep").mkdir()
        (private.path / "deep" / "table.csv").write_text("a\n1\n")
    assert not list(tmp_path.iterdir())
    private.remove()


def test_folders_in_use_stay_and_those_of_the_dead_go(tmp_path):
    held = subprocess.Popen([sys.executable, "-c", HOLDING, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        folder = held.stdout.readline().strip()
        (tmp_path / folder / "table.csv").write_text("a\n1\n")
        with PrivateFolder(tmp_path):
            assert (tmp_path / folder).exists()
        held.kill()
        held.wait()
        with PrivateFolder(tmp_path):
            assert not (tmp_path / folder).exists()
    finally:
        held.kill()
        held.wait()
        held.stdout.close()


def test_what_is_no_folder_of_ours_is_not_touched(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("kept")
    (tmp_path / "shoal-studio-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "shoal-studio-file").write_text("kept")
    (tmp_path / "shoal-studio-young").mkdir()
    locked = tmp_path / "shoal-studio-tricked"
    locked.mkdir()
    (locked / "lock").symlink_to(tmp_path / "elsewhere" / "kept")
    remove_stale(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"elsewhere", *(f"shoal-studio-{name}" for name in ("link", "file", "young", "tricked"))}
    assert (tmp_path / "elsewhere" / "kept").read_text() == "kept"


def test_a_folder_that_never_got_its_lock_goes_when_it_is_old(tmp_path):
    old = tmp_path / "shoal-studio-old"
    old.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)
    remove_stale(tmp_path)
    assert not old.exists()


def test_folders_of_other_users_are_not_touched(tmp_path, monkeypatch):
    left = tmp_path / "shoal-studio-left"
    left.mkdir()
    (left / "lock").touch()
    monkeypatch.setattr(os, "getuid", lambda: left.stat().st_uid + 1)
    remove_stale(tmp_path)
    assert left.exists()
    monkeypatch.undo()
    remove_stale(tmp_path)
    assert not left.exists()
