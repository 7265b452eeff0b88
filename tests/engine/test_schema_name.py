"""The schema's name: claim, mark, flush and recovery work in a schema of another name too."""

import os
import re
import subprocess
import sys
from pathlib import Path

from dispatcher.base.schema_name import NAME, SCHEMA
from tests.support.scene import Connection

FOLDER = Path(__file__).parent
OTHER = "other_dispatcher"
# The tests of recovery claim, mark and flush before they recover, those of dead jobs expand and close: ten seconds.
CHOSEN = (
    *("test_recover.py", "test_schema_name.py::test_the_schema_has_the_name_that_is_used"),
    *("../features/dead_letters/test_jobs.py", "../features/persons/test_erasure_campaigns.py"),
)
SECONDS_MAX = 300


async def test_the_schema_has_the_name_that_is_used(connection: Connection) -> None:
    found = await connection.fetch("SELECT nspname FROM pg_namespace WHERE nspname = ANY ($1)", [NAME, OTHER])
    assert [row["nspname"] for row in found] == [SCHEMA]


def test_the_engine_works_in_a_schema_of_another_name() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["DISPATCHER_SCHEMA"] = OTHER if SCHEMA == NAME else NAME
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, *(str(FOLDER / chosen) for chosen in CHOSEN)],
        cwd=FOLDER.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^[1-9]\d* passed", done.stdout, re.MULTILINE), done.stdout
