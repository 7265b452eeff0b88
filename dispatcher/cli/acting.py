"""Acting: what an operator does to deliveries named by id or key, once everything that was given is sound."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

import typer
from msgspec import Struct

from dispatcher.cli.failures import FAILED, UNUSABLE
from dispatcher.cli.operating import known_as, text_fault, words_fault
from dispatcher.cli.session import Session
from dispatcher.domain.answers import delivery_sentence
from dispatcher.errors import Fault
from dispatcher.store import deliveries as store
from dispatcher.store.database import Database

Verb = Callable[[Database, int, str, str], Awaitable[str]]


class Named(Struct, frozen=True):
    """The deliveries that are meant: by id, by key within a workspace, or both."""

    ids: Sequence[int]
    keys: Sequence[str] = ()
    tenant: str = "default"
    workspace: str = "default"


class Action(Struct, frozen=True):
    """What is to be done to each of them, and what is wrong with what it was given."""

    name: str
    verb: Verb
    faults: Sequence[Fault] = ()


def act(session: Session, action: Action, named: Named, reason: str, actor: str | None) -> None:
    """Do it to each, and say what became of it; or to none, and say everything that is wrong with what was given."""
    who = known_as(actor)
    faults = [*action.faults, *_faults(named, reason, who)]
    if faults and not named.keys:
        _refuse(session, faults)
    all_done = True
    with session.database() as database:
        for delivery_id, key in _find(session, database, named, faults):
            answer = session.run(lambda one=delivery_id: action.verb(database, one, who, reason))  # type: ignore[misc]  # bound now
            done, words = delivery_sentence(action.name, delivery_id, answer)
            all_done = all_done and done
            if session.voice.as_json:
                of_key = {} if key is None else {"key": key}
                session.voice.record({"id": delivery_id, **of_key, "done": done, "answer": answer, "message": words})
            else:
                session.voice.text(words)
    if not all_done:
        raise typer.Exit(FAILED)


def _faults(named: Named, reason: str, who: str) -> Iterator[Fault]:
    """What is wrong with it on the face of it."""
    if not named.ids and not named.keys:
        yield Fault("ID", "name deliveries by their IDs or by --key")
    for option, text in (("--reason", reason), ("--actor", who), *(("--key", key) for key in named.keys)):
        if (fault := words_fault(text)) is not None:
            yield Fault(option, fault)
    for option, text in (("--tenant", named.tenant), ("--workspace", named.workspace)):
        if (fault := text_fault(text)) is not None:
            yield Fault(option, fault)


def _find(
    session: Session, database: Database, named: Named, faults: Sequence[Fault]
) -> Sequence[tuple[int, str | None]]:
    """Each delivery once, with the key that named it; refused where there is any fault, a key that nobody has too."""
    keys = {key: (named.tenant, named.workspace, key) for key in named.keys if words_fault(key) is None}
    whose = text_fault(named.tenant) is None and text_fault(named.workspace) is None
    held = session.run(lambda: store.holders(database, list(keys.values()))) if whose else {}
    unknown = [
        Fault("--key", f"{key} is the key of no delivery of tenant {named.tenant} in workspace {named.workspace}")
        for key, whole in keys.items()
        if whose and whole not in held
    ]
    if faults or unknown:
        _refuse(session, [*faults, *unknown], UNUSABLE if faults else FAILED)
    by_key = {held[whole]: key for key, whole in keys.items()}
    return [(one, None) for one in named.ids] + [(one, key) for one, key in by_key.items() if one not in named.ids]


def _refuse(session: Session, faults: Sequence[Fault], code: int = UNUSABLE) -> None:
    session.voice.fail("UsageError" if code == UNUSABLE else "NotFound", "nothing was done", faults)
    raise typer.Exit(code)
