"""Placement: the answer to a request about a tenant that is not at home in this cell.

It is 421 with the cell and its address, and not a redirect: whoever followed one would hand the key to an address that
an answer names. A client with a directory reads that again, and calls the cell that it names.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher.db.cells import TenantElsewhere, TenantMoving, where
from dispatcher.http.problems import MISDIRECTED, MOVING, Problem
from dispatcher.http.server.authentication import Key

# A move stands still for some seconds at its end.
RETRY_SECONDS = "5"


@contextmanager
def refusals() -> Iterator[None]:
    """Raise Problem where the database refuses a statement."""
    try:
        yield
    except TenantMoving as refused:
        raise _moving(str(refused.args[0])) from refused
    except TenantElsewhere as refused:
        found = where(refused)
        raise Problem(MISDIRECTED, str(refused.args[0]), cell=found.cell or 0, url=found.url) from refused


def require(key: Key, operators: str) -> None:
    """Raise Problem where the key's tenant is not at home here. Operators of the installation are, in every cell."""
    match key.place:
        case "here":
            return
        case "leaving" | "arriving":
            raise _moving(f"tenant {key.tenant_id} is being moved to cell {key.cell}: try again in a moment")
        case "elsewhere":
            at = f" at {key.url}" if key.url else ""
            words = f"tenant {key.tenant_id} is in cell {key.cell}{at}: use that cell"
            raise Problem(MISDIRECTED, words, cell=key.cell, url=key.url)
        case _ if f"{key.tenant_id}/{key.workspace_id}" != operators:
            words = f"tenant {key.tenant_id} has no place in this cell: use the cell that the directory names"
            raise Problem(MISDIRECTED, words)


def _moving(words: str) -> Problem:
    return Problem(MOVING, words, headers={"retry-after": RETRY_SECONDS})
