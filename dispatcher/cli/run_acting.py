"""What an operator does to runs: pause, resume, cancel and retry them, and send them events."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from dispatcher.cli.deliveries import ID_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.given import object_text
from dispatcher.cli.operating import Actor, Reason, require_filter, require_reason, who
from dispatcher.cli.session import Session
from dispatcher.cli.voice import plain
from dispatcher.domain.answers import run_sentence
from dispatcher.doors.nouns import Runs
from dispatcher.store.runs import Verb

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]


def pause(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Pause runs: they go no further, and what they have queued waits."""
    _act(session, "pause", ids, reason, actor)


def resume(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Let paused runs go on."""
    _act(session, "resume", ids, reason, actor)


def cancel(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Cancel runs: what they have queued is skipped, and nothing more is sent."""
    _act(session, "cancel", ids, reason, actor)


def retry(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Let failed runs go on from the node that failed. What was sent stays sent."""
    _act(session, "replay", ids, reason, actor)


def signal(
    session: Session,
    run_id: Id,
    event: Annotated[str, typer.Argument(metavar="EVENT")],
    data: Annotated[
        str, typer.Option(metavar="JSON|@FILE|-", help="What it says, as an object; - is the standard input.")
    ] = "{}",
    actor: Actor = None,
) -> None:
    """Send a run an event. It is kept for the node that waits for it, also where the run comes there later."""
    require_filter("EVENT", event)
    by, text = who(session, actor), object_text("--data", data)
    _each(session, "signal", [run_id], lambda noun, one: noun.signal(one, event, text, by))


def _act(session: Session, verb: Verb, ids: Sequence[int], reason: str, actor: str | None) -> None:
    require_reason(reason)
    by = who(session, actor)
    _each(session, verb, ids, lambda noun, one: noun.act(verb, one, reason, by))


def _each(session: Session, verb: str, ids: Sequence[int], act: Callable[[Runs, int], Awaitable[str]]) -> None:
    all_done = True
    with session.doors() as doors:
        for run_id in dict.fromkeys(ids):
            answer = session.run(lambda one=run_id: act(doors.runs, one))  # type: ignore[misc]  # bound now
            done, words = run_sentence(verb, run_id, answer)
            all_done = all_done and done
            if session.voice.as_json:
                session.voice.record({"execution_id": run_id, "done": done, "answer": answer, "message": words})
            else:
                session.voice.text(plain(words))
    if not all_done:
        raise typer.Exit(FAILED)
