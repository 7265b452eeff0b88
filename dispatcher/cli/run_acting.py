"""What an operator does to runs: pause, resume, cancel and retry them, and send them events."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated

import typer

from dispatcher.cli.deliveries import ID_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.given import object_text
from dispatcher.cli.operating import Actor, Reason, require_text, require_words, who
from dispatcher.cli.session import Session
from dispatcher.cli.voice import plain
from dispatcher.store import runs as store
from dispatcher.store.database import Database
from dispatcher.store.runs import Verb

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]

# What the functions of the schema answer, in words. The first of each means done.
ANSWERS: Mapping[str, Mapping[str, str]] = {
    "pause": {"done": "is paused", "same": "is paused already"},
    "resume": {"done": "goes on", "same": "is not paused"},
    "cancel": {"cancelled": "is cancelled: it sends nothing more"},
    "replay": {"replayed": "goes on from where it had failed; what was sent is not sent again"},
    "discard": {
        "discarded": "is discarded: it stays failed, and is no dead letter any more",
        "same": "was discarded before",
    },
    "signal": {"accepted": "has the event"},
}
ONLY_FAILED = {"replay": "retried", "discard": "discarded"}
ENDED = {"completed": "is completed", "failed": "has failed", "cancelled": "was cancelled"}


def sentence(verb: str, run_id: int, answer: str) -> tuple[bool, str]:
    """Whether it was done, and what to say about it."""
    if answer == "unknown":
        return False, f"there is no run {run_id}"
    answers = ANSWERS[verb]
    if answer in answers:
        return answer == next(iter(answers)), f"run {run_id} {answers[answer]}"
    why = f"only a failed one can be {ONLY_FAILED[verb]}" if verb in ONLY_FAILED else "too late"
    # Cancelled twice is cancelled, but not by this.
    return False, f"run {run_id} {ENDED.get(answer, f'is {answer}')}: {why}"


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
    require_text("EVENT", event)
    by, text = who(actor), object_text("--data", data)
    _each(session, "signal", [run_id], lambda database, one: store.signal(database, one, event, text, by))


def _act(session: Session, verb: Verb, ids: Sequence[int], reason: str, actor: str | None) -> None:
    require_words("--reason", reason)
    by = who(actor)
    _each(session, verb, ids, lambda database, one: store.act(database, verb, one, reason, by))


def _each(session: Session, verb: str, ids: Sequence[int], act: Callable[[Database, int], Awaitable[str]]) -> None:
    all_done = True
    with session.database() as database:
        for run_id in dict.fromkeys(ids):
            answer = session.run(lambda one=run_id: act(database, one))  # type: ignore[misc]  # bound now
            done, words = sentence(verb, run_id, answer)
            all_done = all_done and done
            if session.voice.as_json:
                session.voice.record({"execution_id": run_id, "done": done, "answer": answer, "message": words})
            else:
                session.voice.text(plain(words))
    if not all_done:
        raise typer.Exit(FAILED)
