"""Captured messages over HTTP: listed, and one as its recipient would get it."""

import msgspec

from dispatcher.features.captured import models, store
from dispatcher.http.cursors import read_id
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, page
from dispatcher.http.problems import NOT_FOUND, not_found
from dispatcher.http.roles import Right

NOUN = "captured"


@endpoint("GET", "/captured", Right.DELIVERIES, query=models.CapturedQuery, answered=models.CAPTURED_MESSAGES)
async def list_captured(call: Call) -> Done:
    """List captured messages, the newest first."""
    asked: models.CapturedQuery = call.query
    rows = await store.newest(
        call.database,
        call.workspace,
        read_id(NOUN, asked.cursor),
        asked.limit + 1,
        channel=asked.channel,
        recipient=asked.recipient,
    )
    return Done(models.CapturedMessages(*page(rows, asked.limit, models.CapturedLine, by_id(NOUN))))


@endpoint("GET", "/captured/{captured_id}", Right.DELIVERIES, answered=models.CAPTURED_MESSAGE, problems=(NOT_FOUND,))
async def get_captured(call: Call) -> Done:
    """Show a captured message."""
    number = call.number("captured_id", "captured message")
    found = await store.one(call.database, number)
    if found is None or not call.owns(found):
        raise not_found(f"captured message {number}")
    return Done(msgspec.convert(found, models.CapturedMessage))
