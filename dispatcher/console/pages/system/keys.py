"""API keys: who may do what; made, rotated and revoked. A secret is shown once."""

from typing import Any

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.features.keys.endpoints import create_key, get_key_log, list_keys, revoke_key, rotate_key
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right, Role

ROWS = 50
_DAY_SECONDS = 86_400
_OVERLAPS = (("0", "ends at once"), (str(_DAY_SECONDS), "ends in a day"), (str(7 * _DAY_SECONDS), "ends in a week"))


@page("/keys", Right.KEYS)
async def keys(visit: Visit) -> Answer:
    """List keys by name."""
    found = await visit.ask(list_keys, query={"limit": ROWS, **visit.query})
    return visit.show("system/keys.html", found=found, roles=[role.value for role in Role])


@page("/keys/{name}", Right.KEYS)
async def key(visit: Visit) -> Answer:
    """Show what was done to the keys of a name."""
    found = await visit.ask(get_key_log, query={"limit": ROWS, "cursor": visit.query.get("cursor")})
    return visit.show("system/key.html", name=visit.path["name"], found=found)


async def _once(visit: Visit, endpoint: Endpoint, body: dict[str, Any]) -> Answer:
    made = await visit.ask(endpoint, body=body)
    return visit.show("system/secret.html", name=made.name, secret=made.key, back="/keys", noun="key")


@form("/keys/new", create_key)
async def create(_visit: Visit) -> Form:
    """Make a key."""

    async def act(visit: Visit, body: dict[str, Any]) -> Answer:
        return await _once(visit, create_key, body)

    return Form(
        title="Make a key?",
        text="Its secret is shown once.",
        fields=[
            Field("name", "Name", required=True, hint="Its holder, or the application."),
            Field("role", "Role", "choice", choices=[(role.value, role.value) for role in Role], required=True),
            Field("expires_at", "Ends", "time", hint="Never, if this is empty."),
        ],
        button="Make it",
        act=act,
        back="/keys",
    )


@form("/keys/{name}/rotate", rotate_key)
async def rotate(visit: Visit) -> Form:
    """Give a key another secret."""

    async def act(visit: Visit, body: dict[str, Any]) -> Answer:
        return await _once(visit, rotate_key, body | {"overlap_seconds": float(body["overlap_seconds"])})

    return Form(
        title=f"Give {visit.path['name']} another secret?",
        text="The new one is shown once. A secret that was replaced before ends now.",
        fields=[Field("overlap_seconds", "The old secret", "options", choices=_OVERLAPS, required=True)],
        button="Rotate it",
        act=act,
        back="/keys",
    )


@form("/keys/{name}/revoke", revoke_key)
async def revoke(visit: Visit) -> Form:
    """Revoke a key."""
    name = visit.path["name"]
    own = " It is the key that you are signed in with: your session ends." if name == visit.key.name else ""
    return Form(
        title=f"Revoke the key {name}?",
        text=f"Within a second or so nothing is done with it any more, for good.{own}",
        button="Revoke it",
        risk=True,
        back="/keys",
        done=f"The key {name} is revoked.",
    )
