"""Messages as JSON: what both clients write, and the faults that a client finds by itself."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.client.answers import Message
from dispatcher.client.encoding import json_of, refused
from dispatcher.client.errors import Refused

# Of one call: as many as the server takes.
BATCH_MAX = 5_000


def encoded(messages: Sequence[Message]) -> list[bytes]:
    """Return each message as JSON. Raises Refused with the faults of all."""
    if not 1 <= len(messages) <= BATCH_MAX:
        raise refused([Fault("$.deliveries", f"expected 1 to {BATCH_MAX} of them, got {len(messages)}")])
    faults: list[Fault] = []
    lines: list[bytes] = []
    for number, one in enumerate(messages):
        found = [Fault(f"$.{fault.path}", fault.message) for fault in _faults(one)]
        try:
            lines.append(json_of(_plain(one)))
        except Refused as fault:
            found += fault.faults
        faults += found if len(messages) == 1 else below(number, found)
    if faults:
        raise refused(faults)
    return lines


def below(number: int, faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults of a message with its place in a list."""
    return [Fault(f"$.deliveries[{number}]{fault.path.removeprefix('$')}", fault.message) for fault in faults]


def _plain(message: Message) -> Message:
    """Return the message with its body as a template of one part."""
    if message.body is None:
        return message
    return msgspec.structs.replace(message, body=None, template={"body": message.body})


def _faults(message: Message) -> Iterator[Fault]:
    if message.body is not None and message.template is not None:
        yield Fault("body", "is given beside template: keep one of them")
    if message.locale is not None and not (message.body is None and message.template is None):
        yield Fault("locale", "goes with a stored template: the one that is given has no other")
    for name in ("scheduled_for", "expires_at"):
        time = getattr(message, name)
        if isinstance(time, datetime):
            words = _wrong(time)
            if words is not None:
                yield Fault(name, words)


def _wrong(time: datetime) -> str | None:
    if time.tzinfo is None:
        return "needs its zone: datetime.now(UTC), for one"
    try:
        time.astimezone(UTC)
    except OverflowError:
        return "is out of range"
    return None
