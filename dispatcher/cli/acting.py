"""Acting: what an operator does to deliveries named by id or key, once everything that was given is sound."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

import typer
from msgspec import Struct

from dispatcher.cli.failures import FAILED, UNUSABLE
from dispatcher.cli.operating import known_as, reason_fault, text_fault, words_fault
from dispatcher.cli.session import Session
from dispatcher.domain.answers import delivery_sentence
from dispatcher.doors.doors import Doors
from dispatcher.doors.nouns import Deliveries, Whose
from dispatcher.errors import Fault

Verb = Callable[[Deliveries, int, str, str], Awaitable[str]]


class Named(Struct, frozen=True):
    """The deliveries that are meant: by id, by key within a workspace, or both."""

    ids: Sequence[int]
    keys: Sequence[str] = ()
    tenant: str | None = None
    workspace: str | None = None

    @property
    def whose(self) -> Whose:
        """Whose the keys are."""
        return Whose(self.tenant, self.workspace)


class Action(Struct, frozen=True):
    """What is to be done to each of them, and what is wrong with what it was given."""

    name: str
    verb: Verb
    faults: Sequence[Fault] = ()


def act(session: Session, action: Action, named: Named, reason: str, actor: str | None) -> None:
    """Do it to each, and say what became of it; or to none, and say everything that is wrong with what was given."""
    who, wrong = known_as(session, actor)
    faults = [*action.faults, *_faults(named, reason, wrong)]
    if faults and not named.keys:
        _refuse(session, faults)
    all_done = True
    with session.doors() as doors:
        for delivery_id, key in _find(session, doors, named, faults):
            answer = session.run(lambda one=delivery_id: action.verb(doors.deliveries, one, who, reason))  # type: ignore[misc]  # bound now
            done, words = delivery_sentence(action.name, delivery_id, answer)
            all_done = all_done and done
            if session.voice.as_json:
                of_key = {} if key is None else {"key": key}
                session.voice.record({"id": delivery_id, **of_key, "done": done, "answer": answer, "message": words})
            else:
                session.voice.text(words)
    if not all_done:
        raise typer.Exit(FAILED)


def _faults(named: Named, reason: str, wrong: str | None) -> Iterator[Fault]:
    """What is wrong with it on the face of it."""
    if not named.ids and not named.keys:
        yield Fault("ID", "name deliveries by their IDs or by --key")
    yield from ([] if (fault := reason_fault(reason)) is None else [Fault("--reason", fault)])
    yield from ([] if wrong is None else [Fault("--actor", wrong)])
    yield from (Fault("--key", fault) for key in named.keys if (fault := words_fault(key)) is not None)
    for option, text in (("--tenant", named.tenant), ("--workspace", named.workspace)):
        if text is not None and (fault := text_fault(text)) is not None:
            yield Fault(option, fault)


def _find(session: Session, doors: Doors, named: Named, faults: Sequence[Fault]) -> Sequence[tuple[int, str | None]]:
    """Each delivery once, with the key that named it; refused where there is any fault, a key that nobody has too."""
    keys = [key for key in dict.fromkeys(named.keys) if words_fault(key) is None]
    sound = all(text is None or text_fault(text) is None for text in (named.tenant, named.workspace))
    held = session.run(lambda: doors.deliveries.find(named.whose, keys)) if sound and keys else {}
    missing = [key for key in keys if sound and key not in held]
    unknown: list[Fault] = []
    if missing:
        place = session.run(lambda: doors.workspace(named.whose))
        where = f"of tenant {place.tenant_id} in workspace {place.workspace_id}"
        unknown = [Fault("--key", f"{key} is the key of no delivery {where}") for key in missing]
    if faults or unknown:
        _refuse(session, [*faults, *unknown], UNUSABLE if faults else FAILED)
    by_key = {held[key]: key for key in keys}
    return [(one, None) for one in named.ids] + [(one, key) for one, key in by_key.items() if one not in named.ids]


def _refuse(session: Session, faults: Sequence[Fault], code: int = UNUSABLE) -> None:
    session.voice.fail("UsageError" if code == UNUSABLE else "NotFound", "nothing was done", faults)
    raise typer.Exit(code)
