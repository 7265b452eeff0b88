"""The `runs plan` command: what a trigger would do, step by step, without writing anything."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.failures import FAILED
from dispatcher.cli.given import object_text, pair
from dispatcher.cli.operating import second, who
from dispatcher.cli.planned import Message, Stage, stages
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.cli.trigger import Input, Key, Var, input_of
from dispatcher.cli.voice import Voice, plain
from dispatcher.cli.workflow_work import Workflow, missing, naming
from dispatcher.domain.plans.simulation import Step, simulate
from dispatcher.domain.plans.times import said
from dispatcher.domain.plans.walkable import Walkable
from dispatcher.doors.stored.doors import StoredDoors
from dispatcher.store import runs as store
from dispatcher.store import workflows
from dispatcher.store.runs import Trigger
from dispatcher.store.workflows import Found

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
    session.require_local()
    whose = place(tenant, workspace)
    here = whose.workspace
    asked = Trigger(workflow=name, input=input_of(data, var, key), key=key, workspace=here, by=who(session, None))
    assumed = {
        node: _object(object_text("--assume", text)) for node, text in (pair("--assume", one) for one in assume or [])
    }
    with session.database() as database:
        doors = StoredDoors(database, lambda: session.config)
        with naming(session, doors, whose, name):
            holder = session.run(lambda: store.try_trigger(database, asked))
        if holder is not None:
            _tell_holder(session.voice, holder.execution_id, key)
            return
        found = session.run(lambda: workflows.find(database, here, name))
        if found is None:
            missing(session, doors, whose, name)
        _require_nodes(found, assumed)
        now = session.run(lambda: store.now(database))
        steps = simulate(Walkable.of(found.plan), _object(asked.input), now, assumed)
        planned = session.run(lambda: stages(database, session.config, here, steps))
    if session.voice.as_json:
        session.voice.record(_record(found, planned))
    else:
        _show(session.voice, found, now, planned)
    if _failure(found, planned) is not None:
        raise typer.Exit(FAILED)


def _require_nodes(found: Found, assumed: Mapping[str, object]) -> None:
    unknown = [node for node in assumed if node not in found.plan.nodes]
    if unknown:
        raise typer.BadParameter(f"{found.name} has no node {plain(unknown[0])}", param_hint="--assume")


def _tell_holder(voice: Voice, run_id: int, key: str | None) -> None:
    if voice.as_json:
        voice.record({"duplicate_of": run_id, "steps": []})
    else:
        voice.text(plain(f"duplicate: run {run_id} holds the key {key}; nothing would be started again"))


def _failure(found: Found, planned: Sequence[Stage]) -> Stage | None:
    """The step that the run would fail at."""
    failing = (one for one in planned if one.fails is not None)
    return next((one for one in failing if found.plan.nodes[one.step.node].on_failure != "continue"), None)


def _record(found: Found, planned: Sequence[Stage]) -> dict[str, object]:
    failure = _failure(found, planned)
    return {
        "workflow": found.name,
        "version": found.number,
        "duplicate_of": None,
        "fails_at": None if failure is None else failure.step.node,
        "steps": [_step_record(one) for one in planned],
    }


def _step_record(stage: Stage) -> dict[str, object]:
    step = stage.step
    return {
        "step": step.step,
        "node": step.node,
        "kind": step.kind,
        "skipped": step.is_skipped,
        "at": _time(step.at),
        "until": None if step.until is None else _time(step.until),
        "leads_to": step.leads_to,
        "assumed": step.assumed,
        "depends_on": step.depends_on,
        "error": step.error,
        "messages": stage.messages,
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _show(voice: Voice, found: Found, now: float, planned: Sequence[Stage]) -> None:
    voice.text(
        plain(f"A run of {found.name}, version {found.number}, triggered at {second(_time(now))} would be this:")
    )
    for stage in planned:
        voice.text(plain(_heading(stage.step, now)))
        if stage.step.error is not None:
            voice.text(plain(f"      it fails: {stage.step.error}"))
        for message in stage.messages:
            voice.text(plain(f"      {_words(message)}"))
        # Those of one node say the same, but for the link by which each recipient unsubscribes.
        for message in stage.messages[:1]:
            _show_parts(voice, message)
    failure = _failure(found, planned)
    if failure is not None:
        voice.text(plain(f"The run would fail at {failure.step.node}: {failure.fails}"))


def _heading(step: Step, now: float) -> str:
    if step.is_skipped:
        return f"  -   {step.step} {step.node}: {step.kind}, not reached"
    after = said(round(step.at - now, 3)) if step.at > now else "at once"
    words = [step.kind]
    if step.until is not None and step.until > step.at:
        words.append(f"until {second(_time(step.until))}")
    if step.kind == "branch":
        words.append(f"goes to {', '.join(step.leads_to) or 'nothing'}")
    if step.assumed is not None and step.kind != "send":
        words.append(f"taken for granted: {step.assumed}")
    if step.depends_on:
        words.append(f"reads what is made up for {', '.join(step.depends_on)}")
    return f"  {after}: {step.step} {step.node}: {', '.join(words)}"


def _words(message: Message) -> str:
    to = f"{message.channel} to {message.recipient}" if message.recipient else message.channel
    template = "" if message.version is None else f", template {message.template} version {message.version}"
    locale = "" if message.locale in (None, "default") else f" ({message.locale})"
    if message.error is not None:
        return f"{to}{template}{locale}: cannot be rendered: {message.error}"
    if message.skipped is not None:
        return f"{to}: would be skipped: {message.skipped}"
    return f"{to}{template}{locale}: {message.bytes:,} bytes"


def _show_parts(voice: Voice, message: Message) -> None:
    for part, text in message.parts.items():
        voice.content(f"--- {part} ---\n{text}")
