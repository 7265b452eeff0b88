"""The `runs plan` command: what a trigger would do, step by step, without writing anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated

import msgspec
import typer
from msgspec import Raw

from dispatcher.base.values.durations import format_duration
from dispatcher.cli.arguments import object_text, pair
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import second
from dispatcher.cli.terminal.console import Output, plain
from dispatcher.cli.terminal.output import tell
from dispatcher.features.runs.dry_run import endpoints
from dispatcher.features.runs.trigger_command import Input, Key, Var, Workflow, explaining, input_of
from dispatcher.http.problems import Problem
from dispatcher.plans.simulation.planned import PlannedMessage, PlannedRun, PlannedStep

_object = msgspec.json.Decoder(dict[str, Raw]).decode
# The path of faults in --assume.
_ASSUMED = "$.assume."


def plan(
    caller: Caller,
    name: Workflow,
    *,
    data: Input = None,
    var: Var = None,
    key: Key = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=JSON|@FILE", help="What a function answers, or an event brings; made up without."),
    ] = None,
) -> None:
    """Show what a trigger would do: the path, its times, and each message as it would be sent.

    Nothing is written, and nothing sent. It is refused like the trigger. Messages are taken to be sent, and functions
    to answer; the exit code is 1 where the run would fail all the same.
    """
    given = [pair("--assume", one) for one in assume or []]
    assumed = {node: _object(object_text("--assume", text)) for node, text in given}
    body = {"input": input_of(data, var, key), "idempotency_key": key, "assume": assumed}
    with explaining(caller, name), _about_assumptions():
        planned: PlannedRun = caller.ask(endpoints.plan_workflow, name, body=body)
    if planned.duplicate_of is not None:
        words = f"duplicate: run {planned.duplicate_of} holds the key {key}; nothing would be started again"
        tell(caller, planned, words)
    elif caller.output.as_json:
        caller.output.record(planned)
    else:
        _show(caller.output, planned)
    if planned.fails_at is not None:
        raise typer.Exit(FAILED)


@contextmanager
def _about_assumptions() -> Iterator[None]:
    """Report faults of --assume, which only the endpoint finds, as wrong usage."""
    try:
        yield
    except Problem as problem:
        if not problem.faults or not problem.faults[0].path.startswith(_ASSUMED):
            raise
        raise typer.BadParameter(plain(problem.faults[0].message), param_hint="--assume") from problem


def _show(output: Output, planned: PlannedRun) -> None:
    about = f"{planned.workflow}, version {planned.version}, triggered at {second(planned.at)}"
    output.text(plain(f"A run of {about} would be this:"))
    for stage in planned.steps:
        output.text(plain(_heading(stage, planned.at)))
        if stage.error is not None:
            output.text(plain(f"      it fails: {stage.error}"))
        for message in stage.messages:
            output.text(plain(f"      {_words(message)}"))
        # The messages of a node differ only in the link for unsubscribing.
        for message in stage.messages[:1]:
            _show_parts(output, message)
    failure = next((one for one in planned.steps if one.node == planned.fails_at), None)
    if failure is not None:
        output.text(plain(f"The run would fail at {failure.node}: {failure.fails}"))


def _heading(stage: PlannedStep, now: datetime) -> str:
    if stage.skipped:
        return f"  -   {stage.step} {stage.node}: {stage.kind}, not reached"
    after = format_duration(round((stage.at - now).total_seconds(), 3)) if stage.at > now else "at once"
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


def _words(message: PlannedMessage) -> str:
    to = f"{message.channel} to {message.recipient}" if message.recipient else message.channel
    template = "" if message.version is None else f", template {message.template} version {message.version}"
    locale = "" if message.locale in (None, "default") else f" ({message.locale})"
    if message.error is not None:
        return f"{to}{template}{locale}: cannot be rendered: {message.error}"
    if message.skipped is not None:
        return f"{to}: would be skipped: {message.skipped}"
    if not message.rendered:
        return f"{to}{template}{locale}: as those before it"
    length = f", {message.sms.words}" if message.sms else ""
    return f"{to}{template}{locale}: {message.bytes:,} bytes{length}"


def _show_parts(output: Output, message: PlannedMessage) -> None:
    for part, text in message.parts.items():
        output.content(f"--- {part} ---\n{text}")
