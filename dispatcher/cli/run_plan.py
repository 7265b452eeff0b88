"""The `runs plan` command: what a trigger would do, step by step, without writing anything."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.failures import FAILED
from dispatcher.cli.given import object_text, pair
from dispatcher.cli.operating import second, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.cli.trigger import Input, Key, Var, input_of
from dispatcher.cli.voice import Voice, plain
from dispatcher.cli.workflow_work import Workflow, naming
from dispatcher.domain.plans.planned import Message, Planned, Stage
from dispatcher.domain.plans.times import said
from dispatcher.doors.nouns import Begin
from dispatcher.errors import AssumptionRefused

_object = msgspec.json.Decoder(dict[str, Any]).decode


def plan(
    session: Session,
    name: Workflow,
    *,
    data: Input = None,
    var: Var = None,
    key: Key = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=JSON|@FILE", help="What a function answers, or an event brings; made up without."),
    ] = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show what a trigger would do: the path, its times, and each message as it would be sent.

    Nothing is written, and nothing sent. It is refused like the trigger. Messages are taken to be sent, and functions
    to answer; the exit code is 1 where the run would fail all the same.
    """
    by, whose = who(session, None), place(tenant, workspace)
    asked = Begin(workflow=name, input=input_of(data, var, key), key=key, whose=whose, by=by)
    assumed = {
        node: _object(object_text("--assume", text)) for node, text in (pair("--assume", one) for one in assume or [])
    }
    with session.doors() as doors, naming(session, doors, whose, name):
        try:
            planned = session.run(lambda: doors.runs.plan(asked, assumed))
        except AssumptionRefused as refused:
            raise typer.BadParameter(plain(refused.faults[0].message), param_hint="--assume") from refused
    if session.voice.as_json:
        session.voice.record(planned)
    elif planned.duplicate_of is not None:
        words = f"duplicate: run {planned.duplicate_of} holds the key {key}; nothing would be started again"
        session.voice.text(plain(words))
    else:
        _show(session.voice, planned)
    if planned.fails_at is not None:
        raise typer.Exit(FAILED)


def _show(voice: Voice, planned: Planned) -> None:
    about = f"{planned.workflow}, version {planned.version}, triggered at {second(planned.at)}"
    voice.text(plain(f"A run of {about} would be this:"))
    for stage in planned.steps:
        voice.text(plain(_heading(stage, planned.at)))
        if stage.error is not None:
            voice.text(plain(f"      it fails: {stage.error}"))
        for message in stage.messages:
            voice.text(plain(f"      {_words(message)}"))
        # Those of one node say the same, but for the link by which each recipient unsubscribes.
        for message in stage.messages[:1]:
            _show_parts(voice, message)
    failure = next((one for one in planned.steps if one.node == planned.fails_at), None)
    if failure is not None:
        voice.text(plain(f"The run would fail at {failure.node}: {failure.fails}"))


def _heading(stage: Stage, now: datetime) -> str:
    if stage.skipped:
        return f"  -   {stage.step} {stage.node}: {stage.kind}, not reached"
    after = said(round((stage.at - now).total_seconds(), 3)) if stage.at > now else "at once"
    words = [stage.kind]
    if stage.until is not None and stage.until > stage.at:
        words.append(f"until {second(stage.until)}")
    if stage.kind == "branch":
        words.append(f"goes to {', '.join(stage.leads_to) or 'nothing'}")
    if stage.assumed is not None and stage.kind != "send":
        words.append(f"taken for granted: {stage.assumed}")
    if stage.depends_on:
        words.append(f"reads what is made up for {', '.join(stage.depends_on)}")
    return f"  {after}: {stage.step} {stage.node}: {', '.join(words)}"


def _words(message: Message) -> str:
    to = f"{message.channel} to {message.recipient}" if message.recipient else message.channel
    template = "" if message.version is None else f", template {message.template} version {message.version}"
    locale = "" if message.locale in (None, "default") else f" ({message.locale})"
    if message.error is not None:
        return f"{to}{template}{locale}: cannot be rendered: {message.error}"
    if message.skipped is not None:
        return f"{to}: would be skipped: {message.skipped}"
    if not message.rendered:
        return f"{to}{template}{locale}: as those before it"
    return f"{to}{template}{locale}: {message.bytes:,} bytes"


def _show_parts(voice: Voice, message: Message) -> None:
    for part, text in message.parts.items():
        voice.content(f"--- {part} ---\n{text}")
