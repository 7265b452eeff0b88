"""The `sequences` commands about enrolments: list, show, pause, resume, cancel and move them."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from dispatcher.base.values.counts import counted
from dispatcher.cli.arguments import object_text
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command
from dispatcher.cli.options import Reason, require_reason, second
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.output import cell, show_facts, show_list, tell
from dispatcher.features.sequences import enrolment_endpoints as endpoints
from dispatcher.features.sequences.enrolment_models import (
    ChangedEnrolments,
    Enrolment,
    Moved,
    MoveGroup,
    MovePreview,
    StepLog,
    WholeEnrolment,
)
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.models import VERSION_MAX, Acted

Name = Annotated[str, typer.Argument(metavar="SEQUENCE")]
Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Version = Annotated[int, typer.Option(min=1, max=VERSION_MAX)]
_ONE: Mapping[str, Endpoint] = {
    "pause": endpoints.pause_enrolment,
    "resume": endpoints.resume_enrolment,
    "cancel": endpoints.cancel_enrolment,
}


def add(app: typer.Typer) -> None:
    """Add these commands to those of sequences."""
    command(app, "enrolments", limit=50)(list_)
    command(app, "enrolment")(show)
    command(app, "change", acts=True)(change)
    command(app, "change-all", acts=True)(change_all)
    command(app, "move", acts=True)(move)


def list_(
    caller: Caller,
    name: Name,
    *,
    status: Annotated[str | None, typer.Option(help="active, paused, completed or cancelled.")] = None,
    contact: Annotated[str | None, typer.Option(help="Of one contact, by its key.")] = None,
) -> None:
    """List the enrolments of a sequence, the newest first."""
    columns = ("id", "contact", "version", "status", "step", "next", "why")
    found = caller.listed(endpoints.list_enrolments, name, status=status, contact=contact)
    show_list(caller, found, columns, _cells, "Nobody is enrolled.")


def _cells(row: Enrolment) -> tuple[object, ...]:
    step, soon = row.current_step_index, cell(row.next_step_at)
    return row.id, row.contact or row.contact_id, row.version, row.status, step, soon, plain(row.reason or "")


def show(caller: Caller, number: Id) -> None:
    """Show an enrolment with what its steps have sent."""
    found: WholeEnrolment = caller.ask(endpoints.get_enrolment, number)
    show_facts(caller, "enrolment", str(number), found, "logs")
    if not caller.output.as_json:
        caller.output.text()
        show_list(caller, found.logs, ("delivery", "step", "channel", "status", "sent", "error"), _log, "Nothing yet.")


def _log(one: StepLog) -> tuple[object, ...]:
    sent = "" if one.sent_at is None else second(one.sent_at)
    return one.id, one.step_id, one.channel, one.status, sent, plain(one.error or "")


Action = Annotated[str, typer.Argument(metavar="pause|resume|cancel")]


def _checked(action: str) -> str:
    if action not in _ONE:
        raise typer.BadParameter(f"expected one of {', '.join(_ONE)}", param_hint="ACTION")
    return action


def change(caller: Caller, action: Action, number: Id, reason: Reason) -> None:
    """Pause, resume or cancel an enrolment."""
    require_reason(reason)
    done: Acted = caller.ask(_ONE[_checked(action)], number, body={"reason": reason})
    tell(caller, done, done.message)


def change_all(
    caller: Caller,
    action: Action,
    name: Name,
    reason: Reason,
    *,
    audience: Annotated[str | None, typer.Option(metavar="JSON|@FILE|-", help="Only those of an audience.")] = None,
) -> None:
    """Pause, resume or cancel all enrolments of a sequence, or those of an audience."""
    require_reason(reason)
    body = {"action": _checked(action), "reason": reason}
    if audience is not None:
        body["audience"] = msgspec.json.decode(object_text("--audience", audience))
    changed, more = 0, True
    while more:
        done: ChangedEnrolments = caller.ask(endpoints.change_enrolments, name, body=body)
        changed, more = changed + done.changed, done.more
    words = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[action]
    tell(caller, {"sequence": name, "changed": changed}, f"{_counted(changed, name)} {words}")


def move(
    caller: Caller,
    name: Name,
    *,
    start: Annotated[int, typer.Option("--from", min=1, max=VERSION_MAX, help="The version that they are in.")],
    end: Annotated[int, typer.Option("--to", min=1, max=VERSION_MAX, help="The version that they go on in.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else only show what it would do.")] = False,
) -> None:
    """Move enrolments to another version. A step that one has got is not sent again.

    Without --yes it only shows what would change for how many.
    """
    body = {"from_version": start, "to_version": end}
    if not yes:
        found: MovePreview = caller.ask(endpoints.preview_move, name, body=body)
        columns = ("waits for step", "would go on with", "enrolments")
        show_list(caller, found.groups, columns, _group, f"Nobody is in version {start}.")
        return
    moved = completed = 0
    more = True
    while more:
        done: Moved = caller.ask(endpoints.move_enrolments, name, body=body)
        moved, completed, more = moved + done.moved, completed + done.completed, done.more
        body["after"] = done.last
    record = {"sequence": name, "moved": moved, "completed": completed}
    tell(caller, record, f"{_counted(moved, name)} moved, {completed:,} completed")


def _counted(count: int, name: str) -> str:
    return counted(count, f"enrolment of {name} is", f"enrolments of {name} are")


def _group(one: MoveGroup) -> tuple[object, ...]:
    onward = "left alone: it is sending" if one.is_sending else one.next_step or "nothing: it is completed"
    return cell(one.step), onward, one.enrollments
