"""The demonstration's link to the console: it signs in once, with a key that is made for it."""

import ipaddress
from urllib.parse import urlsplit

from dispatcher.base.workspace import Workspace
from dispatcher.console.sessions import SESSION_SECONDS
from dispatcher.console.sign_in import SignIn
from dispatcher.db.database import Database
from dispatcher.features.keys import store
from dispatcher.http.bearer import Bearer
from dispatcher.http.roles import Role

NAME = "demonstration"
_BY = (NAME, "the link to the console")


async def console_link(database: Database, sign_in: SignIn, address: str) -> str:
    """Return the link; the console's own address where others could reach it."""
    if not address or not _is_loopback(address):
        return f"{address}/console" if address else ""
    made = await store.create(database, Workspace(), NAME, Role.SYSTEM_ADMIN, None, by=_BY)
    if made is None:
        rotated = await store.rotate(database, Workspace(), NAME, SESSION_SECONDS, by=_BY)
        made = rotated if isinstance(rotated, Bearer) else None
    return f"{address}/console" if made is None else address + sign_in.link(made)


def _is_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
