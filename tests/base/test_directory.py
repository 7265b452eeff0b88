"""The directory of cells: every fault at once, and a file that changes while a program runs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dispatcher.base.directory import LOOK_SECONDS, DirectoryFile, read
from dispatcher.base.errors import ConfigError

SOUND: dict[str, Any] = {
    "version": 3,
    "default": 1,
    "cells": [
        {"number": 1, "url": "https://one.example.org"},
        {"number": 2, "database": "postgresql://u:secret@two/app"},
    ],
    "tenants": {"acme": 2},
}


def text(**changed: Any) -> bytes:
    """A sound directory, but for some of it."""
    return json.dumps(SOUND | changed).encode()


def test_a_tenant_is_in_the_cell_that_lists_it_or_in_the_default_one() -> None:
    found = read(text(), "cells.json")
    assert (found.home("acme").number, found.home("other").number) == (2, 1)


def test_a_directory_shows_no_password() -> None:
    assert "secret" not in repr(read(text(), "cells.json"))


def test_every_fault_is_named_with_its_path() -> None:
    cells = [{"number": 0}, {"number": 2, "url": "ftp://two"}, {"number": 2, "url": "https://u:p@two"}]
    with pytest.raises(ConfigError) as refused:
        read(text(version=0, default=5, cells=cells, tenants={"acme": 9}), "cells.json")
    assert [fault.path.removeprefix("cells.json: ") for fault in refused.value.faults] == [
        "$.version",
        "$.default",
        "$.cells[0].number",
        "$.cells[1].url",
        "$.cells[2].number",
        "$.cells[2].url",
        "$.tenants.acme",
    ]


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"version": 1}', text(more=1)])
def test_what_is_no_directory_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError):
        read(content, "cells.json")


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def wait(self) -> None:
        self.at += LOOK_SECONDS


def write(path: Path, content: bytes) -> None:
    """Write a file as one that has changed, however coarse the clock of its file system is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(content)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_a_newer_file_is_read_and_an_older_or_faulty_one_changes_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "cells.json", Clock()
    write(path, text())
    file = DirectoryFile(path, clock.now)
    assert file.read().version == 3
    write(path, text(version=4))
    # Within a second it is not looked at again.
    assert file.read().version == 3
    for content, version in ((None, 4), (text(version=2), 4), (b"{", 4), (text(version=5), 5)):
        clock.wait()
        if content is not None:
            write(path, content)
        assert file.read().version == version
    clock.wait()
    path.unlink()
    assert file.read().version == 5


def test_without_a_sound_file_there_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        DirectoryFile(tmp_path / "missing.json").read()
