"""Answers to requests with an Idempotency-Key, kept in the transaction of what they were asked to do."""

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.db.tenants import Transaction

_SQL = statements(__name__)

# A client that has not asked again by then has given up.
KEPT_SECONDS = 86_400.0


class Asked(Struct, frozen=True):
    """A request: whose it is, its key, and the hash of all that it says."""

    workspace: Workspace
    key: str
    hash: bytes


class Answer(Struct, frozen=True):
    """What was answered once; `same` where it was the same request, `erased` where it was about an erased person."""

    status: int
    body: bytes
    same: bool
    erased: bool


async def begin(inside: Transaction, asked: Asked) -> Answer | None:
    """Take the key of a request; the answer that it has already, where it was used."""
    whose = asked.workspace.tenant_id, asked.workspace.workspace_id, asked.key
    while not await inside.fetch(_SQL["begin"], *whose, asked.hash):
        # None where it was dropped between the two statements.
        for row in await inside.fetch(_SQL["find"], *whose):
            return Answer(row["status"], row["answer"], same=row["asked"] == asked.hash, erased=row["erased"])
    return None


async def finish(inside: Transaction, asked: Asked, status: int, body: bytes) -> None:
    """Keep what is answered, for as long as somebody may ask again."""
    await inside.fetch(_SQL["finish"], asked.workspace.tenant_id, asked.workspace.workspace_id, asked.key, status, body)


async def drop(database: Database, page: int) -> int:
    """Forget old answers; says how many it were."""
    return int(await database.value(_SQL["drop"], KEPT_SECONDS, page))
