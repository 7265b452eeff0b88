"""The `sequences` commands: save, publish, look at, pause and delete sequences; enrol contacts and operate on them."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.arguments import object_text
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.folders import Compared, paths_of, show_differences, show_others, show_saved
from dispatcher.cli.options import Reason, require_reason, second
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.output import cell, show_facts, show_list, tell
from dispatcher.features.sequences import endpoints, enrolment_commands
from dispatcher.features.sequences import enrolment_endpoints as enrolments
from dispatcher.features.sequences.enrolment_models import BatchEnrolled
from dispatcher.features.sequences.files import SUFFIXES, SequenceFile, read_all
from dispatcher.features.sequences.models import (
    DEFINITIONS_MAX,
    FunnelStep,
    Previewed,
    PreviewedStep,
    SavedSequence,
    Sequence,
    SequenceRow,
    SwitchedSequence,
)

app = group(help="Send messages over days: write and publish sequences, enrol contacts.")
enrolment_commands.add(app)

Name = Annotated[str, typer.Argument(metavar="SEQUENCE")]
Publish = Annotated[bool, typer.Option("--publish", help="Publish them as well.")]
_FILES = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


@command(app, "put", acts=True)
def put(
    caller: Caller,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Definitions, YAML or JSON.")],
    *,
    publish: Publish = False,
) -> None:
    """Save drafts of sequences from files. Nothing is saved where any of them has a fault."""
    for one in read_all(caller, [(path, str(path)) for path in files]):
        saved, version = _save(caller, one, publish=publish)
        done = {"created": "is saved", "changed": "is changed", "same": "says this already"}[saved.answer]
        words = f"sequence {one.name}: its draft {done}" + (f"; version {version} is published" if publish else "")
        tell(caller, msgspec.structs.asdict(saved) | {"file": one.path, "version": version}, words)


def _save(caller: Caller, one: SequenceFile, *, publish: bool) -> tuple[SavedSequence, int]:
    saved: SavedSequence = caller.ask(endpoints.put_sequence, one.name, body=one.definition)
    if not publish:
        return saved, saved.version
    done: SwitchedSequence = caller.ask(endpoints.publish_sequence, one.name)
    return saved, done.version if isinstance(done.version, int) else saved.version


@command(app, "sync", acts=True)
def sync(
    caller: Caller,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Its files {_FILES}, one a sequence.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only show what differs; then the exit code is 1.")] = False,
    publish: Publish = False,
) -> None:
    """Save every sequence of a folder, or nothing where any of them has a fault.

    What is stored and not in the folder is named and left alone.
    """
    files = {one.name: one for one in read_all(caller, paths_of(folder, SUFFIXES, DEFINITIONS_MAX))}
    compared = [
        Compared(one.name, one.path, not one.stored.same, publish and not (one.stored.same and one.stored.published))
        for one in files.values()
    ]
    show_others(caller, sorted(set(caller.names(endpoints.list_sequences)) - set(files)))
    if check:
        show_differences(caller, compared, lambda one: _difference(files[one.name], one))
        return
    saved = [(one, _save(caller, files[one.name], publish=publish)[1], {"published": publish}) for one in compared]
    show_saved(caller, "sequence", "published", saved)


def _difference(file: SequenceFile, one: Compared) -> tuple[dict[str, object], str]:
    is_stored = file.stored.stored
    words = "says something else" if is_stored else "is not stored"
    if not one.differs:
        words = "is not published"
    record: dict[str, object] = {"stored": is_stored, "differs": one.differs, "publishes": one.waits}
    return record, f"{file.name}: {words} ({file.path})"


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List sequences by name."""
    columns = ("name", "status", "version", "steps", "draft", "by", "at")
    show_list(caller, caller.listed(endpoints.list_sequences), columns, _cells, "There are no sequences.")


def _cells(row: SequenceRow) -> tuple[object, ...]:
    draft = "changed" if row.is_changed else ""
    return row.name, row.status, row.version, row.steps, draft, row.updated_by, second(row.updated_at)


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show a sequence: its steps, its versions, and how far its enrolments have come."""
    found: Sequence = caller.ask(endpoints.get_sequence, name)
    show_facts(caller, "sequence", name, found, "steps", "funnel", "versions")
    if caller.output.as_json:
        return
    caller.output.text()
    show_list(caller, found.steps, ("id", "order", "day", "hour", "channel", "name"), _step, "It has no steps.")
    caller.output.text()
    columns = ("step", "name", "waiting", "pending", "sent", "failed", "skipped")
    show_list(caller, found.funnel, columns, _funnel, "Nobody has come to a step.")


def _step(one: dict[str, Any]) -> tuple[object, ...]:
    hour = cell(one["sendHour"])
    return one["id"], one["stepOrder"], one["dayOffset"], hour, one["channel"], cell(one["name"])


def _funnel(one: FunnelStep) -> tuple[object, ...]:
    return one.step_id, cell(one.name), one.waiting, one.pending, one.sent, one.failed, one.skipped


@command(app, "publish", acts=True)
def publish_(caller: Caller, name: Name) -> None:
    """Publish the draft as the next version, in which contacts are enrolled from now on."""
    done: SwitchedSequence = caller.ask(endpoints.publish_sequence, name)
    words = f"version {done.version} is published" if done.answer == "published" else "says this already"
    tell(caller, done, f"sequence {name}: {words}")


@command(app, "pause", acts=True)
def pause(caller: Caller, name: Name, reason: Reason) -> None:
    """Pause a sequence: nothing more of it is sent."""
    require_reason(reason)
    done: SwitchedSequence = caller.ask(endpoints.pause_sequence, name, body={"reason": reason})
    tell(caller, done, f"sequence {name} {'was paused before' if done.answer == 'same' else 'is paused'}")


@command(app, "resume", acts=True)
def resume(caller: Caller, name: Name, reason: Reason) -> None:
    """Let a paused sequence go on. What was due is sent once, later steps move by the length of the pause."""
    require_reason(reason)
    done: SwitchedSequence = caller.ask(endpoints.resume_sequence, name, body={"reason": reason})
    tell(caller, done, f"sequence {name} {'was active before' if done.answer == 'same' else 'goes on'}")


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name) -> None:
    """Delete a sequence that has no open enrolments."""
    tell(caller, caller.ask(endpoints.delete_sequence, name), f"sequence {name} is deleted")


@command(app, "preview")
def preview(caller: Caller, name: Name, contact: Annotated[str, typer.Option(help="For whom: the key.")]) -> None:
    """Show each step of the draft for a contact: when it would be sent, and what it would say."""
    found: Previewed = caller.ask(endpoints.preview_sequence, name, body={"contactId": contact})
    show_list(caller, found.steps, ("step", "at", "channel", "to", "message"), _previewed, "It has no steps.")


def _previewed(one: PreviewedStep) -> tuple[object, ...]:
    length = f" ({one.sms.words})" if one.sms else ""
    message = one.fault or "; ".join(f"{part}: {text}" for part, text in one.parts.items()) + length
    return one.name or one.id, second(one.at), one.channel, cell(one.recipient), plain(message)


@command(app, "enrol", acts=True)
def enrol(
    caller: Caller,
    name: Name,
    contacts: Annotated[list[str] | None, typer.Argument(metavar="CONTACT...", help="By key.")] = None,
    *,
    audience: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE|-", help='By filters, such as {"company": "Acme"}.')
    ] = None,
) -> None:
    """Enrol contacts: those of an audience, and those that are named. Who is enrolled already is skipped."""
    body: dict[str, Any] = msgspec.json.decode(object_text("--audience", audience)) if audience is not None else {}
    if contacts:
        body["contactIds"] = [*body.get("contactIds", []), *contacts]
    done: BatchEnrolled = caller.ask(enrolments.enrol_contacts, name, body=body)
    reasons = "; ".join(f"{one['reason']}: {one['count']}" for one in done.data.reasons)
    words = f"{done.data.enrolled_count} enrolled, {done.data.skipped_count} skipped"
    tell(caller, done, plain(f"{words} ({reasons})" if reasons else words))
