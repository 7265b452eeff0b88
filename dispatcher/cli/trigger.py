"""The `trigger` command: one run of a workflow, and if that is asked for, its progress to the end."""

from typing import Annotated
from uuid import uuid4

import msgspec
import typer

from dispatcher.cli.given import object_with_pairs
from dispatcher.cli.operating import Actor, require_words, who
from dispatcher.cli.program import launcher
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.cli.voice import plain
from dispatcher.cli.watching import POLL_SECONDS, SECONDS_MAX, Patience, Poll, follow
from dispatcher.cli.workflow_work import Workflow, naming
from dispatcher.doors.nouns import Begin
from dispatcher.store.runs import Triggered

TIMEOUT_SECONDS = 60.0

Input = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON|@FILE|-", help="What it is given, as an object; - is the standard input."),
]
Var = Annotated[list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="More of it: JSON, else text.")]
Key = Annotated[
    str | None,
    typer.Option("--key", "--correlation-id", help="What makes it unique; without one a random key is made."),
]


def input_of(data: str | None, var: list[str] | None, key: str | None) -> str:
    """The input that the options of a trigger say."""
    if key is not None:
        require_words("--key", key)
    return object_with_pairs("--input", data, "--var", var or [])


def trigger(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
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
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Start a run of a workflow.

    It is refused with everything that its input lacks. A key that exists starts nothing: the answer is the run that it
    has started already. With --wait the exit code is 0 where the run is completed.
    """
    own_key = key if key is not None else f"cli-{uuid4()}"
    by, whose = who(session, actor), place(tenant, workspace)
    asked = Begin(workflow=name, input=input_of(data, var, key), key=own_key, whose=whose, by=by)
    with session.doors() as doors:
        with naming(session, doors, whose, name):
            answer = session.run(lambda: doors.runs.trigger(asked))
        if key is None:
            # Nobody else can have it: the answer to the first try was lost on the way.
            answer = msgspec.structs.replace(answer, duplicate=False)
        _tell(session, answer, own_key)
        if wait:
            follow(session, doors, answer.execution_id, Patience(poll, timeout))


def _tell(session: Session, answer: Triggered, key: str) -> None:
    if session.voice.as_json:
        session.voice.record(msgspec.structs.asdict(answer) | {"idempotency_key": key})
        session.voice.flush()
    elif answer.duplicate:
        words = f"duplicate: run {answer.execution_id} holds the key {key}; nothing is started again"
        session.voice.text(plain(words))
    else:
        what = f"workflow {answer.workflow_name}, version {answer.version}, {answer.total_steps} steps"
        session.voice.text(plain(f"run {answer.execution_id} is queued: {what}"))
        session.voice.say(f"see `{launcher()} runs show {answer.execution_id}`")
