"""Deliveries over HTTP: writing them, looking at them, and cancelling and moving them until they are marked."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from dispatcher.api import models
from dispatcher.api.cursors import below
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_id, page
from dispatcher.api.problems import CONFLICT, NOT_FOUND, OVERLOADED, Problem, faulty, not_found
from dispatcher.breaks import Breaks
from dispatcher.domain.answers import STOPPED, delivery_sentence
from dispatcher.domain.life import Lane
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault, Hints, InputError
from dispatcher.store import deliveries as store
from dispatcher.store.database import Database
from dispatcher.store.deliveries import New, Written
from dispatcher.store.writing import write

NOUN = "deliveries"
_SCOPE = ("tenant_id", "workspace_id")
_line = msgspec.json.Decoder(dict[str, Raw]).decode
_DOCUMENTS = ("template", "variables", "options")
_each = msgspec.json.Decoder(dict[str, list[Raw]]).decode

Verb = Callable[[Database, int, str, str], Awaitable[str]]


async def create(call: Call) -> Done:
    """Write one."""
    (written,) = await _written(call, [await _read(call, call.body, "$", Hints(), tree=call.given)], ["$"])
    return Done(written, 200 if written.duplicate else 201)


async def create_many(call: Call) -> Done:
    """Write many, or none."""
    given = call.given
    found = given.get("deliveries") if isinstance(given, dict) else None
    if not isinstance(found, list) or len(given) != 1:
        raise faulty([Fault("$", 'expected an object with one field: {"deliveries": [...]}')])
    if not 1 <= len(found) <= models.BATCH_MAX:
        raise faulty([Fault("$.deliveries", f"expected 1 to {models.BATCH_MAX} of them, got {len(found)}")])
    paths = [f"$.deliveries[{number}]" for number in range(len(found))]
    hints, breaks = Hints(), Breaks()
    read: list[New | Problem] = []
    for line, path, one in zip(_each(call.body)["deliveries"], paths, found, strict=True):
        # A template that was not met before takes a third of a millisecond, and a large one more.
        await breaks.take()
        try:
            read.append(await _read(call, bytes(line), path, hints, tree=one))
        except Problem as problem:
            read.append(problem)
    faults = [fault for one in read if isinstance(one, Problem) for fault in one.faults]
    if faults:
        raise faulty(faults)
    return Done(models.WrittenMany(await _written(call, [one for one in read if isinstance(one, New)], paths)))


async def _read(call: Call, line: bytes, path: str, hints: Hints, tree: Any) -> New:  # noqa: ANN401 - whatever it says
    """A delivery as the command line reads one. Whose it is, the key says."""
    if not isinstance(tree, dict):
        raise faulty([Fault(path, "expected an object")])
    foreign = [Fault(f"{path}.{name}", "unknown field: the key says whose it is") for name in _SCOPE if name in tree]
    try:
        new = await _take_in(call, line, hints)
    except InputError as refused:
        raise faulty([*(_under(path, fault) for fault in refused.faults), *foreign]) from refused
    if foreign:
        raise faulty(foreign)
    whose = call.workspace
    return msgspec.structs.replace(new, tenant_id=whose.tenant_id, workspace_id=whose.workspace_id)


async def _take_in(call: Call, line: bytes, hints: Hints) -> New:
    return await call.served.intake().take_in(call.served.offload, call.workspace.tenant_id, line, hints)


def _under(path: str, fault: Fault) -> Fault:
    return Fault(path if fault.path in ("line", "database") else f"{path}.{fault.path}", fault.message)


async def _written(call: Call, new: Sequence[New], paths: Sequence[str]) -> list[models.Written]:
    await call.served.shed(sorted({one.channel for one in new}))
    answers = await write(call.database, new)
    faults = [_under(path, one) for path, one in zip(paths, answers, strict=True) if isinstance(one, Fault)]
    if faults:
        raise faulty(faults)
    return [
        models.Written(answer.id, one.idempotency_key, answer.duplicate)
        for one, answer in zip(new, answers, strict=True)
        if not isinstance(answer, Fault)
    ]


async def send_lines(call: Call) -> Done:
    """Write those that are sound, and say of each other one what is wrong with it."""
    given: models.NewLines = call.given
    hints, breaks = Hints(), Breaks()
    read: list[New | Sequence[Fault]] = []
    for line in given.lines:
        await breaks.take()
        read.append(await _read_line(call, line, hints))
    new = [one for one in read if isinstance(one, New)]
    await call.served.shed(sorted({one.channel for one in new}))
    answers = iter(await write(call.database, new))
    told = [_told(one, next(answers)) if isinstance(one, New) else models.SentLine(faults=one) for one in read]
    return Done(models.SentLines(told))


async def _read_line(call: Call, line: str, hints: Hints) -> New | Sequence[Fault]:
    whose = {"tenant_id": call.workspace.tenant_id, "workspace_id": call.workspace.workspace_id}
    try:
        new = await _take_in(call, line.encode(), hints)
    except InputError as refused:
        return refused.faults
    given = {name: getattr(new, name) for name in _line(line) if name in whose}
    foreign = [Fault(name, f"the key opens {whose[name]}") for name, said in given.items() if said != whose[name]]
    return foreign or msgspec.structs.replace(new, **whose)


def _told(new: New, answer: Written | Fault) -> models.SentLine:
    if isinstance(answer, Fault):
        return models.SentLine(faults=[answer])
    return models.SentLine(id=answer.id, idempotency_key=new.idempotency_key, duplicate=answer.duplicate)


async def list_(call: Call) -> Done:
    """The newest."""
    asked: models.DeliveryQuery = call.query
    rows = await store.listed(
        call.database,
        min(below(NOUN, asked.cursor), asked.before),
        asked.limit + 1,
        life=asked.life,
        channel=asked.channel,
        tenant_id=call.workspace.tenant_id,
        workspace_id=call.workspace.workspace_id,
        idempotency_key=asked.idempotency_key,
    )
    return Done(models.Deliveries(*page([_shown(row) for row in rows], asked.limit, models.Delivery, by_id(NOUN))))


async def show(call: Call) -> Done:
    """One, whole."""
    delivery_id = call.number("delivery_id", "delivery")
    found = await store.show(call.database, delivery_id)
    if found is None or not call.owns(found):
        raise not_found(f"delivery {delivery_id}")
    return Done(msgspec.convert(_shown(found), models.WholeDelivery))


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    documents = {name: Raw(row[name].encode()) for name in _DOCUMENTS if isinstance(row.get(name), str)}
    captured = [{**one, "parts": Raw(one["parts"].encode())} for one in row.get("captured", ())]
    return {**row, "lane": Lane(row["lane"]).name.lower(), "captured": captured, **documents}


async def mail(call: Call) -> Done:
    """The mail that was captured of one."""
    delivery_id = await _named(call)
    found = await store.raw(call.database, delivery_id)
    if found is None:
        raise Problem(CONFLICT, f"no mail was captured of delivery {delivery_id}")
    return Done(models.Mail(delivery_id, found))


async def retry(call: Call) -> Done:
    """Send one again."""
    return await _act(call, "retry", await _named(call), store.reopen)


async def cancel(call: Call) -> Done:
    """Not send one."""
    return await _act(call, "cancel", await _named(call), store.cancel)


async def move(call: Call) -> Done:
    """Send one at another time."""
    at: datetime = call.given.run_at

    async def verb(database: Database, delivery_id: int, actor: str, reason: str) -> str:
        return await store.move(database, delivery_id, at, actor, reason)

    return await _act(call, "move", await _named(call), verb)


async def _named(call: Call) -> int:
    """The delivery that is meant, by its id or by its key."""
    if "delivery_id" in call.path:
        delivery_id = call.number("delivery_id", "delivery")
        if not call.owns(await store.owner(call.database, delivery_id)):
            raise not_found(f"delivery {delivery_id}")
        return delivery_id
    key: str = call.given.idempotency_key
    found = await store.find(call.database, call.workspace.tenant_id, call.workspace.workspace_id, key)
    if found is None:
        raise not_found("delivery with this key")
    return found


async def _act(call: Call, action: str, delivery_id: int, verb: Verb) -> Done:
    answer = await verb(call.database, delivery_id, call.actor, call.given.reason)
    done, words = delivery_sentence(action, delivery_id, answer)
    # What is stopped is held now, which has to last: a problem would undo it.
    if not done and answer != STOPPED:
        raise Problem(CONFLICT, words, answer=answer)
    return Done(models.Acted(delivery_id, answer, words))


_EXAMPLE = {
    "idempotency_key": "order-17:shipped",
    "channel": "email",
    "recipient": "ann@example.org",
    "template": {"subject": "Order {{ id }}", "text": "It is on its way."},
    "variables": {"id": 17},
}
_WHY = {"reason": "the order was cancelled"}
_LATER = {"run_at": "2030-12-31T08:00:00Z", "reason": "the shop is closed"}
_KEY = {"idempotency_key": "order-17:shipped"}

ENDPOINTS = (
    Endpoint(
        operation="createDelivery",
        method="POST",
        path="/deliveries",
        right=Right.DELIVERIES,
        summary="Send one message to one recipient",
        description="Answers 201, or 200 with the delivery that holds the key already: nothing is sent again.",
        given=models.NewDelivery,
        example=_EXAMPLE,
        answer=models.Written,
        status=201,
        problems=(OVERLOADED,),
        handle=create,
        makes=("delivery_id", "id"),
        reads_itself=True,
    ),
    Endpoint(
        operation="createDeliveries",
        method="POST",
        path="/deliveries/batch",
        right=Right.DELIVERIES,
        summary="Send many messages, or none of them",
        given=models.NewDeliveries,
        example={"deliveries": [_EXAMPLE]},
        answer=models.WrittenMany,
        problems=(OVERLOADED,),
        handle=create_many,
        reads_itself=True,
        large=True,
    ),
    Endpoint(
        operation="sendLines",
        method="POST",
        path="/deliveries/lines",
        right=Right.DELIVERIES,
        summary="Send those of many messages that are sound",
        description="Each line is a delivery as a JSON object in a text of its own, and is answered by itself, in the "
        "order of the lines: by the delivery that holds its key, or by its faults.",
        given=models.NewLines,
        example={"lines": [msgspec.json.encode(_EXAMPLE).decode()]},
        answer=models.SentLines,
        problems=(OVERLOADED,),
        handle=send_lines,
        large=True,
    ),
    Endpoint(
        operation="listDeliveries",
        method="GET",
        path="/deliveries",
        right=Right.DELIVERIES,
        summary="List deliveries, the newest first",
        query=models.DeliveryQuery,
        answer=models.Deliveries,
        handle=list_,
    ),
    Endpoint(
        operation="getDelivery",
        method="GET",
        path="/deliveries/{delivery_id}",
        right=Right.DELIVERIES,
        summary="Show a delivery with its whole trace",
        answer=models.WholeDelivery,
        problems=(NOT_FOUND,),
        handle=show,
    ),
    Endpoint(
        operation="getDeliveryMail",
        method="GET",
        path="/deliveries/{delivery_id}/mail",
        right=Right.DELIVERIES,
        summary="Show the mail that was captured of a delivery, as a server would get it",
        answer=models.Mail,
        problems=(NOT_FOUND, CONFLICT),
        handle=mail,
    ),
    *(
        Endpoint(
            operation=operation,
            method="POST",
            path=path,
            right=Right.DELIVERIES,
            summary=summary,
            given=given,
            example=example,
            answer=models.Acted,
            problems=(NOT_FOUND, CONFLICT),
            handle=handle,
        )
        for operation, path, summary, given, example, handle in (
            ("cancelDelivery", "/deliveries/{delivery_id}/cancel", "Cancel a delivery", models.Why, _WHY, cancel),
            ("moveDelivery", "/deliveries/{delivery_id}/move", "Send it at another time", models.Move, _LATER, move),
            (
                "retryDelivery",
                "/deliveries/{delivery_id}/retry",
                "Send a failed or skipped delivery again, with all its attempts anew",
                models.Why,
                _WHY,
                retry,
            ),
            (
                "cancelDeliveryByKey",
                "/deliveries/cancel",
                "Cancel the delivery that holds a key",
                models.CancelByKey,
                _KEY | _WHY,
                cancel,
            ),
            (
                "moveDeliveryByKey",
                "/deliveries/move",
                "Send the delivery that holds a key at another time",
                models.MoveByKey,
                _KEY | _LATER,
                move,
            ),
        )
    ),
)
