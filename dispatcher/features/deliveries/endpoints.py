"""Deliveries over HTTP: written, shown, and cancelled or moved until they are marked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from dispatcher.base.errors import Fault, Hints, InputError
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.features.deliveries import models, search, store
from dispatcher.features.deliveries.intake import intake
from dispatcher.features.deliveries.openings import openings
from dispatcher.features.deliveries.rules import STOPPED, delivery_sentence
from dispatcher.features.deliveries.store import New, readable
from dispatcher.features.deliveries.subjects import subjects
from dispatcher.features.deliveries.writing import write
from dispatcher.http.cursors import cursor, read_id
from dispatcher.http.endpoints import Call, Done, Endpoint, Handle, endpoint
from dispatcher.http.listing import by_id, cut
from dispatcher.http.models import ACTED, Acted, Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, OVERLOADED, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "deliveries"
_ONE = "/deliveries/{delivery_id}"
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
_SCOPE = ("tenant_id", "workspace_id")
_line = msgspec.json.Decoder(dict[str, Raw]).decode
_each = msgspec.json.Decoder(dict[str, list[Raw]]).decode


@endpoint(
    "POST",
    "/deliveries",
    Right.DELIVERIES,
    given=models.NewDelivery,
    example=_EXAMPLE,
    answered=models.WRITTEN,
    status=201,
    problems=(OVERLOADED,),
    makes=("delivery_id", "id"),
    reads_itself=True,
    traced=True,
)
async def create_delivery(call: Call) -> Done:
    """Send one message to one recipient.

    Answers 201, or 200 with the delivery that holds the key: it is not sent again.
    """
    (written,) = await _written(call, [await _Reader(call).read(call.body, "$", tree=call.given)], ["$"])
    return Done(written, 200 if written.duplicate else 201)


@endpoint(
    "POST",
    "/deliveries/batch",
    Right.DELIVERIES,
    given=models.NewDeliveries,
    example={"deliveries": [_EXAMPLE]},
    answered=models.WRITTEN_MANY,
    problems=(OVERLOADED,),
    reads_itself=True,
    large=True,
    traced=True,
)
async def create_deliveries(call: Call) -> Done:
    """Send many messages, or none of them."""
    given = call.given
    found = given.get("deliveries") if isinstance(given, dict) else None
    if not isinstance(found, list) or len(given) != 1:
        raise faulty([Fault("$", 'expected an object with one field: {"deliveries": [...]}')])
    if not 1 <= len(found) <= models.BATCH_MAX:
        raise faulty([Fault("$.deliveries", f"expected 1 to {models.BATCH_MAX} of them, got {len(found)}")])
    paths = [f"$.deliveries[{number}]" for number in range(len(found))]
    reader, breaks = _Reader(call), LoopYielder()
    read: list[New | Problem] = []
    for line, path, one in zip(_each(call.body)["deliveries"], paths, found, strict=True):
        # A new template takes a third of a millisecond, a large one more.
        await breaks.take()
        try:
            read.append(await reader.read(bytes(line), path, tree=one))
        except Problem as problem:
            read.append(problem)
    faults = [fault for one in read if isinstance(one, Problem) for fault in one.faults]
    if faults:
        raise faulty(faults)
    return Done(models.WrittenMany(await _written(call, [one for one in read if isinstance(one, New)], paths)))


class _Reader:
    """Reads the deliveries of a request, by the same intake as on the command line."""

    def __init__(self, call: Call) -> None:
        self._offload = call.served.offload
        self._tenant_id = call.part.tenant_id or "default"
        # A local command has its event loop alone.
        self._intake = intake(call.served.config(), hurried=call.shown is not None)
        self._hints = Hints()
        self._scope: dict[str, str] = {name: text for name in _SCOPE if (text := getattr(call.part, name)) is not None}
        traced = {} if call.traceparent is None else {"traceparent": call.traceparent}
        self._same = self._scope | traced

    async def read(self, line: bytes, path: str, tree: Any) -> New:  # noqa: ANN401 - any JSON
        """Return a delivery of the key's workspace. Raises Problem."""
        if not isinstance(tree, dict):
            raise faulty([Fault(path, "expected an object")])
        foreign = [
            Fault(f"{path}.{name}", "unknown field: the key opens one workspace") for name in _SCOPE if name in tree
        ]
        try:
            new = await self._parsed(line)
        except InputError as refused:
            raise faulty([*(_under(path, fault) for fault in refused.faults), *foreign]) from refused
        if foreign:
            raise faulty(foreign)
        return msgspec.structs.replace(new, **self._same)

    async def read_line(self, line: str) -> New | Sequence[Fault]:
        """Return the delivery of a line, which may name the key's own workspace, or its faults."""
        try:
            new = await self._parsed(line.encode())
        except InputError as refused:
            return refused.faults
        scope = self._scope
        given = {name: getattr(new, name) for name in _line(line) if name in scope}
        foreign = [Fault(name, f"the key opens {scope[name]}") for name, said in given.items() if said != scope[name]]
        return foreign or msgspec.structs.replace(new, **self._same)

    async def _parsed(self, line: bytes) -> New:
        return await self._intake.read_offloaded(self._offload, self._tenant_id, line, self._hints)


def _under(path: str, fault: Fault) -> Fault:
    return Fault(path if fault.path in ("line", "database") else f"{path}.{fault.path}", fault.message)


async def _written(call: Call, new: Sequence[New], paths: Sequence[str]) -> list[models.Written]:
    await call.served.shed(sorted({one.channel for one in new}))
    answers = await write(call.database, new)
    faults = [_under(path, one) for path, one in zip(paths, answers, strict=True) if isinstance(one, Fault)]
    if faults:
        raise faulty(faults)
    told = await openings(call.database, call.served.config(), new, answers)
    return [one for one in told if isinstance(one, models.Written)]


@endpoint(
    "POST",
    "/deliveries/lines",
    Right.DELIVERIES,
    given=models.NewLines,
    example={"lines": [msgspec.json.encode(_EXAMPLE).decode()]},
    answered=models.SENT_LINES,
    problems=(OVERLOADED,),
    large=True,
    traced=True,
)
async def send_lines(call: Call) -> Done:
    """Send the valid ones of many messages.

    Each line is a delivery as a JSON object in a text. The answer has a result for each line, in their order: the
    delivery that holds its key, or its faults.
    """
    given: models.NewLines = call.given
    reader, breaks = _Reader(call), LoopYielder()
    read: list[New | Sequence[Fault]] = []
    for line in given.lines:
        await breaks.take()
        read.append(await reader.read_line(line))
    new = [one for one in read if isinstance(one, New)]
    await call.served.shed(sorted({one.channel for one in new}))
    answers = iter(await openings(call.database, call.served.config(), new, await write(call.database, new)))
    told = [_told(next(answers)) if isinstance(one, New) else models.SentLine(faults=one) for one in read]
    return Done(models.SentLines(told))


def _told(answer: models.Written | Fault) -> models.SentLine:
    if isinstance(answer, Fault):
        return models.SentLine(faults=[answer])
    return models.SentLine(**msgspec.structs.asdict(answer))


@endpoint("GET", "/deliveries", Right.DELIVERIES, query=models.DeliveryQuery, answered=models.DELIVERIES)
async def list_deliveries(call: Call) -> Done:
    """List deliveries, the newest first."""
    asked: models.DeliveryQuery = call.query
    below = min(read_id(NOUN, asked.cursor), asked.before)
    if asked.is_search:
        found, end = await search.found(call.database, call.part, asked, below)
        more = None if end is None else cursor(NOUN, end)
    else:
        rows = await store.listed(
            call.database,
            below,
            asked.limit + 1,
            life=asked.life,
            channel=asked.channel,
            tenant_id=call.part.tenant_id,
            workspace_id=call.part.workspace_id,
            idempotency_key=asked.idempotency_key,
        )
        found, more = cut(rows, asked.limit, by_id(NOUN))
    known = await subjects(call.database, call.served.config().limits, [row["id"] for row in found])
    shown = [readable(row) | {"subject": known.get(row["id"])} for row in found]
    return Done(models.Deliveries([msgspec.convert(row, models.Delivery) for row in shown], more))


@endpoint("GET", _ONE, Right.DELIVERIES, answered=models.WHOLE_DELIVERY, problems=(NOT_FOUND,))
async def get_delivery(call: Call) -> Done:
    """Show a delivery with its trace."""
    delivery_id = call.number("delivery_id", "delivery")
    found = await store.show(call.database, delivery_id)
    if found is None or not call.owns(found):
        raise not_found(f"delivery {delivery_id}")
    known = await subjects(call.database, call.served.config().limits, [delivery_id])
    found["subject"] = known.get(delivery_id)
    if call.shown is not None:
        return Done(msgspec.convert(readable(found), models.WholeDelivery))
    claim = await store.claimed(call.database, delivery_id)
    return Done(msgspec.convert(readable(found) | claim, models.ClaimedDelivery))


@endpoint("GET", f"{_ONE}/mail", Right.DELIVERIES, answered=models.MAIL, problems=(NOT_FOUND, CONFLICT))
async def get_delivery_mail(call: Call) -> Done:
    """Show the captured mail of a delivery, in the form that a server would get."""
    delivery_id = await _named(call)
    found = await store.raw(call.database, delivery_id)
    if found is None:
        raise Problem(CONFLICT, f"no mail was captured of delivery {delivery_id}")
    return Done(models.Mail(delivery_id, found))


def _action(path: str, given: type[Why], example: Mapping[str, Any]) -> Callable[[Handle], Endpoint]:
    """Declare an endpoint that acts on a delivery."""
    problems = (NOT_FOUND, CONFLICT)
    return endpoint("POST", path, Right.DELIVERIES, given=given, example=example, answered=ACTED, problems=problems)


@_action(f"{_ONE}/cancel", Why, _WHY)
async def cancel_delivery(call: Call) -> Done:
    """Cancel a delivery."""
    delivery_id = await _named(call)
    return _acted("cancel", delivery_id, await store.cancel(call.database, delivery_id, call.actor, call.given.reason))


@_action(f"{_ONE}/move", models.Move, _LATER)
async def move_delivery(call: Call) -> Done:
    """Send a delivery at another time."""
    delivery_id, given = await _named(call), call.given
    answer = await store.move(call.database, delivery_id, given.run_at, call.actor, given.reason)
    return _acted("move", delivery_id, answer)


@_action(f"{_ONE}/retry", Why, _WHY)
async def retry_delivery(call: Call) -> Done:
    """Send a failed or skipped delivery again, with all its attempts anew."""
    delivery_id = await _named(call)
    return _acted("retry", delivery_id, await store.reopen(call.database, delivery_id, call.actor, call.given.reason))


@endpoint(
    "POST",
    f"{_ONE}/repair",
    Right.DELIVERIES,
    given=models.Repair,
    example={"reason": "it had no name", "variables": {"name": "Ann"}},
    answered=models.WRITTEN,
    status=201,
    problems=(NOT_FOUND, CONFLICT),
)
async def repair_delivery(call: Call) -> Done:
    """Write a failed or skipped delivery anew, with variables that it lacked.

    The new one has the key `retry-of-` and the id of the other. Answers 201, or 200 where the same was asked before.
    """
    delivery_id, given = await _named(call), call.given
    variables = msgspec.json.encode(given.variables)
    if len(variables) > (most := call.served.config().limits.variables_bytes_max):
        raise faulty([Fault("$.variables", f"has {len(variables)} bytes, over {most}")])
    answer, new = await store.repair(call.database, delivery_id, variables, call.actor, given.reason)
    done, words = delivery_sentence("repair", delivery_id, answer)
    if not done or new is None:
        raise Problem(CONFLICT, words if new is None else f"{words}: see delivery {new.id}", answer=answer)
    opening = (await store.standing(call.database, [new.id]))[new.id]
    facts = msgspec.structs.asdict(opening)
    key = f"retry-of-{delivery_id}"
    written = models.Written(id=new.id, idempotency_key=key, duplicate=new.duplicate, **facts)
    return Done(written, 200 if new.duplicate else 201)


@_action("/deliveries/cancel", models.CancelByKey, _KEY | _WHY)
async def cancel_delivery_by_key(call: Call) -> Done:
    """Cancel the delivery that holds a key."""
    return await cancel_delivery.handle(call)


@_action("/deliveries/move", models.MoveByKey, _KEY | _LATER)
async def move_delivery_by_key(call: Call) -> Done:
    """Send the delivery that holds a key at another time."""
    return await move_delivery.handle(call)


async def _named(call: Call) -> int:
    """Return the id of the delivery that is named by its id or its key."""
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


def _acted(action: str, delivery_id: int, answer: str) -> Done:
    done, words = delivery_sentence(action, delivery_id, answer)
    # A stopped delivery is held now; a problem would roll that back.
    if not done and answer != STOPPED:
        raise Problem(CONFLICT, words, answer=answer)
    return Done(Acted(delivery_id, answer, words))
