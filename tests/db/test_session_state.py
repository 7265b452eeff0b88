"""Session state: none of our SQL leaves any, since behind a pooler the session is other clients' as well."""

import re
from pathlib import Path

import pytest

from dispatcher.db.schema import baseline

ROOT = Path(__file__).parents[2]
STATE = re.compile(
    r"\b(?:SET (?:SESSION|ROLE)|RESET|DISCARD|LISTEN|UNLISTEN|PREPARE|DEALLOCATE|WITH HOLD|(?:TEMP|TEMPORARY) TABLE)\b"
    # A statement of its own, and not the SET of an UPDATE.
    r"|(?:\A|;|\bBEGIN|\bTHEN)\s*SET (?!LOCAL\b|CONSTRAINTS\b)\w+"
    r"|\bset_config\((?:[^()]|\([^()]*\))*, *false\)"
    r"|\bpg_(?:try_)?advisory_(?:lock|unlock)\w*",
)
# A move has sessions of its own, which lead to Postgres itself; its lock ends with them.
OF_ITS_OWN = {"moves.sql": ["pg_try_advisory_lock"]}
COMMENT = re.compile(r"--.*")


def _found(sql: str) -> list[str]:
    return STATE.findall(COMMENT.sub("", sql))


def test_no_statement_or_function_leaves_state_in_a_session() -> None:
    files = [path for room in ("dispatcher", "channels") for path in sorted((ROOT / room).rglob("*.sql"))]
    assert len(files) > len(baseline.FILES)
    found = {path.name: found for path in files if (found := _found(path.read_text(encoding="utf-8")))}
    assert found == OF_ITS_OWN


@pytest.mark.parametrize(
    "sql",
    [
        "SET jit = off;",
        "SET ROLE dispatcher_tenant;",
        "SELECT set_config('jit', 'off', false);",
        "SELECT pg_advisory_lock(1);",
        "SELECT pg_try_advisory_lock_shared(1);",
        "CREATE TEMP TABLE t (a int);",
        "LISTEN dispatcher_work;",
        "PREPARE one AS SELECT 1;",
    ],
)
def test_each_kind_is_found(sql: str) -> None:
    assert _found(sql)
    assert not _found(f"-- {sql}")
    assert not _found("SET LOCAL jit = off; SELECT set_config('jit', 'off', true), pg_advisory_xact_lock(1);")
