"""The `keys` commands: keys of the HTTP API and their roles."""

from typing import Annotated

import typer

from dispatcher.base.values.durations import DURATION_WORDS, duration
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import Reason
from dispatcher.cli.terminal.output import cell, show_list, tell
from dispatcher.features.keys import endpoints
from dispatcher.features.keys.models import ApiKey, KeyAction, NewSecret, RevokedKey, Secret
from dispatcher.http.roles import MATRIX, Role

app = group(help="Make, list, rotate and revoke the keys of the HTTP API.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the key: its holder, or the application.")]


@command(app, "create", acts=True, cells=True)
def create(
    caller: Caller,
    name: Name,
    role: Annotated[Role, typer.Option(help="What the key may do.")],
    reason: Reason,
    *,
    expires_at: Annotated[str | None, typer.Option(metavar="RFC3339", help="When it ends; never without it.")] = None,
) -> None:
    """Make a key. Its secret is shown only now."""
    body = {"name": name, "role": role.value, "expires_at": expires_at, "reason": reason}
    made: NewSecret = caller.ask(endpoints.create_key, body=body)
    rights = ", ".join(sorted(MATRIX[role])) or "nothing over HTTP"
    _show_once(caller, made, {"name": name, "role": role.value}, f"key {name} ({role.value}: {rights})")


@command(app, "rotate", acts=True)
def rotate(
    caller: Caller,
    name: Name,
    reason: Reason,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret stays valid: 24h, 0s.")
    ] = "24h",
) -> None:
    """Give a key another secret, shown only now. The old one stays valid for the overlap, an older one does not."""
    seconds = duration(overlap)
    if seconds is None:
        raise typer.BadParameter(f"expected a duration: {DURATION_WORDS}", param_hint="--overlap")
    made: Secret = caller.ask(endpoints.rotate_key, name, body={"overlap_seconds": seconds, "reason": reason})
    old = f"the old one is valid for another {overlap}" if seconds else "the old one is not valid any more"
    _show_once(caller, made, {"name": name}, f"another secret of the key {name}; {old}")


@command(app, "revoke", acts=True, cells=True)
def revoke(caller: Caller, name: Name, reason: Reason) -> None:
    """Revoke a key: it is invalid within a second."""
    done: RevokedKey = caller.ask(endpoints.revoke_key, name, body={"reason": reason})
    tell(caller, done, f"key {name} is revoked")


@command(app, "list", limit=100, cells=True)
def list_(
    caller: Caller, *, revoked: Annotated[bool, typer.Option("--revoked", help="Also revoked keys.")] = False
) -> None:
    """List the keys of a workspace, without their secrets."""
    columns = ("name", "role", "state", "begins with", "made", "last used", "ends")
    found = caller.listed(endpoints.list_keys, revoked=revoked)
    show_list(caller, found, columns, _cells, "There are no keys here.")


@command(app, "log", limit=100, after=False)
def log(caller: Caller, name: Name) -> None:
    """Show the actions on the keys of a name, with actor and reason."""
    columns = ("at", "what", "by", "secret", "why")
    show_list(caller, caller.listed(endpoints.get_key_log, name), columns, _of_action, "")


def _cells(row: ApiKey) -> tuple[object, ...]:
    old = f"; old secret until {cell(row.old_secret_until)}" if row.old_secret_until else ""
    ends = cell(row.revoked_at or row.expires_at or "never")
    prefixes, made, used = cell(row.prefixes), cell(row.created_at), cell(row.last_used_at)
    return row.name, row.role, row.state + old, prefixes, made, used, ends


def _of_action(one: KeyAction) -> tuple[object, ...]:
    return cell(one.at), one.action, one.actor, one.prefix, one.reason


def _show_once(caller: Caller, made: Secret, facts: dict[str, str], words: str) -> None:
    """Print the secret alone on standard output, so that it can be piped to a file."""
    caller.output.info(f"{words}. It is shown only now:")
    tell(caller, facts | {"prefix": made.prefix, "key": made.key}, made.key)
