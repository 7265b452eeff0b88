"""Passing on: an unsubscription whose tenant is in another cell is made there.

The links in mails lead to the cell that has sent them, also after a move. It is no redirect: mail programs that
unsubscribe with one click follow none (RFC 8058). No key goes along, since the link is signed: all cells have the same
`unsubscribe.secrets`.
"""

from collections.abc import Sequence

import aiohttp

from dispatcher.engine.rules.unsubscribe_links import PATH

SECONDS_MAX = 5.0
# Of a request that a cell has made: it is passed on once, whatever cells believe of each other.
HEADER = "dispatcher-passed-on"


async def pass_on(url: str, token: str, fields: Sequence[tuple[str, str]]) -> bool:
    """Make an unsubscription at the address of another cell; False where it did not answer that it was made."""
    if not url:
        return False
    made = f"{url.rstrip('/')}{PATH}{token}"
    said, passed_on = list(fields), {HEADER: "yes"}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS_MAX)) as session,
            session.post(made, data=said, headers=passed_on, allow_redirects=False) as response,
        ):
            return response.status in range(200, 300)
    except (TimeoutError, aiohttp.ClientError, OSError):
        return False
