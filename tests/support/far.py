"""The command line far from the database: the same commands, with the address of a server and a key in place of it."""

import asyncio
import subprocess
from typing import Any

from tests.cli.test_operate import rows
from tests.support.caller import make_key
from tests.support.program import Program

Done = subprocess.CompletedProcess[bytes]


class Far:
    """Runs commands through a program that serves, and can reach no database."""

    def __init__(self, program: Program, key: str | None = None) -> None:
        self.program = program
        self.environment = {
            "DISPATCHER_URL": program.address,
            "DISPATCHER_KEY": make_key(program) if key is None else key,
            "DISPATCHER_DATABASE_URL": "postgresql://127.0.0.1:1/nothing",
        }

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Done:
        """Run a command to its end."""
        return self.program.run(*arguments, stdin=stdin, **self.environment | environment)


Door = Program | Far


# Who has claimed a delivery, and by which claim: no tenant may see it.
CLAIM = ("token", "owner")


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as a server tells them: without their claim."""
    return [{name: value for name, value in row.items() if name not in CLAIM} for row in rows]


async def both(near: Program, far: Far, *arguments: str) -> tuple[Done, Done]:
    """One command through both doors, at the same time."""
    done = await asyncio.gather(*(asyncio.to_thread(one.run, *arguments) for one in (near, far)))
    return done[0], done[1]


async def same(near: Program, far: Far, *arguments: str) -> str:
    """What a command says, which is the same through both doors; its JSON in whatever order."""
    here, there = await both(near, far, *arguments)
    assert (there.returncode, there.stderr.decode()) == (here.returncode, here.stderr.decode())
    if "--json" in arguments:
        assert rows(there, there.returncode) == told(rows(here, here.returncode))
    else:
        lines = here.stdout.decode().splitlines()
        assert there.stdout.decode().splitlines() == [one for one in lines if one.split(" ")[0] not in CLAIM]
    return here.stdout.decode()
