"""A database that an earlier release made and one that is new have the same schema.

`released/` has the baseline of each release; before the first there is none, and no migration. How the comparison works
is shown by a migration of its own, in `migrated/`.
"""

from pathlib import Path

import asyncpg
import pytest

from dispatcher.db.schema import baseline, migrator
from tests.db.snapshot import snapshot
from tests.support.scene import Connection

HERE = Path(__file__).parent
RELEASED = sorted((HERE / "released").glob("*.sql"))
EXAMPLE = HERE / "migrated"
COLUMN = "    provider_keys    jsonb\n"


def _released(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let this be the newest schema, as it was when it was released."""
    monkeypatch.setattr(baseline, "text", lambda: text)
    monkeypatch.setattr(migrator, "RELEASED", frozenset({migrator.newest().checksum}))


async def _of(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        assert not migrator.pending(await migrator.applied(connection))
        return (await snapshot(connection)).splitlines()
    finally:
        await connection.close()


def test_there_is_no_migration_before_the_first_release() -> None:
    assert RELEASED or not migrator.migrations()
    assert len(RELEASED) == len(migrator.RELEASED)


async def _made_by(url: str, baseline_text: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        _released(patched, baseline_text)
        patched.setattr(migrator, "migrations", list)
        await migrator.migrate(url)


async def test_the_migrations_lead_from_the_first_release_to_the_newest_schema(
    connection: Connection, empty_url: str
) -> None:
    await _made_by(empty_url, RELEASED[0].read_text() if RELEASED else baseline.text())
    await migrator.migrate(empty_url)
    assert await _of(empty_url) == (await snapshot(connection)).splitlines()


@pytest.mark.parametrize("forgotten", ["", "COMMENT", "REVOKE"])
async def test_a_migration_makes_what_the_files_say(
    url: str, empty_url: str, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    before = baseline.text()
    _released(monkeypatch, before)
    (path,) = EXAMPLE.glob("0001_*.sql")
    lines = path.read_text().splitlines()
    sql = "\n".join(line for line in lines if not forgotten or not line.startswith(forgotten))
    monkeypatch.setattr(migrator, "migrations", lambda: [migrator.Migration(1, "claims_note", sql)])
    assert before.count(COLUMN) == 1
    after = before.replace(COLUMN, f"{COLUMN.rstrip()},\n    note text\n") + (EXAMPLE / "claims_note.sql").read_text()
    monkeypatch.setattr(baseline, "text", lambda: after)

    assert [one.version for one in await migrator.migrate(url)] == [1]
    assert [one.version for one in await migrator.migrate(empty_url)] == [migrator.BASELINE]
    # Compared by line, so that a failure shows what differs and not two long texts.
    assert (await _of(url) == await _of(empty_url)) is not bool(forgotten)
