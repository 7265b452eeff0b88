"""The `trigger` command: starts a run of a workflow, and with --wait shows its progress to the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import uuid4

import typer
from msgspec import Raw, structs

from dispatcher.base.errors import Fault, TriggerRefused, did_you_mean
from dispatcher.base.values.counts import counted
from dispatcher.cli.arguments import object_with_pairs
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import name_given, require_words
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.output import tell
from dispatcher.features.runs import endpoints
from dispatcher.features.runs.models import Triggered
from dispatcher.features.runs.watch_command import POLL_SECONDS, SECONDS_MAX, Poll, PollLimits, follow
from dispatcher.http.problems import CONFLICT, FAULTY, NOT_FOUND, Problem

TIMEOUT_SECONDS = 60.0

Input = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON|@FILE|-", help="Its input, as an object; - is the standard input."),
]
Var = Annotated[list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="More of it: JSON, else text.")]
Key = Annotated[
    str | None,
    typer.Option("--key", "--correlation-id", help="Its idempotency key; random without it."),
]


Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", callback=name_given)]

app = group()


@command(app, "trigger", acts=True)
def trigger(
    caller: Caller,
    name: Workflow,
    *,
    data: Input = None,
    var: Var = None,
    key: Key = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show its progress, and end as it does.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0, max=SECONDS_MAX, help="With --wait: for so many seconds at the most.")
    ] = TIMEOUT_SECONDS,
    poll: Poll = POLL_SECONDS,
) -> None:
    """Start a run of a workflow.

    It is refused with everything that its input lacks. A key that exists starts nothing: the answer is the run that it
    has started already. With --wait the exit code is 0 where the run is completed.
    """
    own_key = key if key is not None else f"cli-{uuid4()}"
    body = {"input": input_of(data, var, key), "idempotency_key": own_key}
    with explaining(caller, name):
        answer: Triggered = caller.ask(endpoints.trigger_workflow, name, body=body)
    if key is None:
        # The random key is ours: the answer to a first attempt was lost.
        answer = structs.replace(answer, duplicate=False)
    _tell(caller, answer, own_key)
    if wait:
        follow(caller, answer.execution_id, PollLimits(poll, timeout))


def input_of(data: str | None, var: list[str] | None, key: str | None) -> Raw:
    """Return the input that --input and --var make."""
    if key is not None:
        require_words("--key", key)
    return Raw(object_with_pairs("--input", data, "--var", var or []).encode())


@contextmanager
def explaining(caller: Caller, name: str) -> Iterator[None]:
    """Turn the Problem of a trigger into TriggerRefused, with the faults of its input or a similar name."""
    try:
        yield
    except Problem as problem:
        if problem.kind not in (FAULTY, NOT_FOUND, CONFLICT):
            raise
        from dispatcher.features.workflows import endpoints as workflows  # noqa: PLC0415 - its compiler loads slowly

        hint = did_you_mean(name, caller.names(workflows.list_workflows)) if problem.kind is NOT_FOUND else ""
        faults = problem.faults or [Fault("$", problem.detail)]
        raise TriggerRefused(faults, problem.detail + hint) from problem


def _tell(caller: Caller, answer: Triggered, key: str) -> None:
    run_id = answer.execution_id
    if answer.duplicate:
        words = f"duplicate: run {run_id} holds the key {key}; nothing is started again"
    else:
        what = f"workflow {answer.workflow_name}, version {answer.version}, {counted(answer.total_steps, 'step')}"
        words = f"run {run_id} is queued: {what}"
    tell(caller, structs.asdict(answer) | {"idempotency_key": key}, words)
    caller.output.flush()
    if not answer.duplicate:
        caller.output.info(f"see `{launcher()} runs show {run_id}`")
