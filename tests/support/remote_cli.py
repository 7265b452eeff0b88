"""The command line without a database: the same commands, with the address of a server and a key."""

import asyncio
import subprocess
from typing import Any

from tests.cli.test_operate import rows
from tests.support.caller import make_key
from tests.support.program import Program

Done = subprocess.CompletedProcess[bytes]


class RemoteCli:
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


Cli = Program | RemoteCli


# Who has claimed a delivery, and by which claim: no tenant may see it.
CLAIM = ("token", "owner")


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as a server tells them: without their claim."""
    return [{name: value for name, value in row.items() if name not in CLAIM} for row in rows]


async def both(near: Program, remote: RemoteCli, *arguments: str) -> tuple[Done, Done]:
    """One command locally and remotely, at the same time."""
    done = await asyncio.gather(*(asyncio.to_thread(one.run, *arguments) for one in (near, remote)))
    return done[0], done[1]


async def same(near: Program, remote: RemoteCli, *arguments: str) -> str:
    """The output of a command, which is the same locally and remotely; its JSON in whatever order."""
    here, there = await both(near, remote, *arguments)
    assert (there.returncode, there.stderr.decode()) == (here.returncode, here.stderr.decode())
    if "--json" in arguments:
        assert rows(there, there.returncode) == told(rows(here, here.returncode))
    else:
        lines = here.stdout.decode().splitlines()
        assert there.stdout.decode().splitlines() == [one for one in lines if one.split(" ")[0] not in CLAIM]
    return here.stdout.decode()
