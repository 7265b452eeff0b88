"""Answers to requests with an Idempotency-Key, stored in the transaction of the request."""

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.db.tenants import Transaction

_SQL = statements(__name__)

# A client that has not asked again by then has given up.
ANSWER_SECONDS = 86_400.0


class KeyedRequest(Struct, frozen=True):
    """A request with its workspace, its Idempotency-Key and the hash of everything that it says."""

    workspace: Workspace
    key: str
    hash: bytes

    @property
    def place(self) -> tuple[str, str, str]:
        return self.workspace.tenant_id, self.workspace.workspace_id, self.key


class StoredAnswer(Struct, frozen=True):
    """An earlier answer; `same` if the request was the same, `erased` if it was about a person erased since."""

    status: int
    body: bytes
    same: bool
    erased: bool


async def begin(inside: Transaction, asked: KeyedRequest) -> StoredAnswer | None:
    """Reserve the key of a request, or return the answer that it has already."""
    while not await inside.fetch(_SQL["begin"], *asked.place, asked.hash):
        # None where it was dropped between the two statements.
        for row in await inside.fetch(_SQL["find"], *asked.place):
            return StoredAnswer(row["status"], row["answer"], same=row["asked"] == asked.hash, erased=row["erased"])
    return None


async def finish(inside: Transaction, asked: KeyedRequest, status: int, body: bytes) -> None:
    """Store an answer, for as long as it may be asked for again."""
    await inside.fetch(_SQL["finish"], *asked.place, status, body)


async def drop(database: Database, page: int) -> int:
    """Delete a page of old answers; returns their number."""
    return int(await database.value(_SQL["drop"], ANSWER_SECONDS, page))
