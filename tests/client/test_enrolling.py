"""Enrolling by both clients: each answers and refuses the same."""

import pytest

from dispatcher.client import AnyClient, Conflict, NotFound
from tests.conformance.runs import Running
from tests.support.caller import Caller, make_key

STEP = {"dayOffset": 1, "stepOrder": 1, "channel": "sms", "content": "Hello"}


@pytest.fixture(scope="module")
def api(place: Running) -> Caller:
    """What whoever writes sequences uses."""
    caller = Caller(place.program, make_key(place.program))
    assert caller.call("PUT", "/sequences/drip", {"steps": [STEP], "stopOn": "bought"}).status == 201
    assert caller.call("PUT", "/sequences/draft", {"steps": [STEP]}).status == 201
    assert caller.call("POST", "/sequences/drip/publish").status == 200
    assert caller.call("PUT", "/contacts/ann", {"name": "Ann"}).status == 201
    return caller


async def test_an_enrolment_is_the_same_by_the_other_client(client: AnyClient, other: AnyClient, api: Caller) -> None:
    number = api.get("/contacts/ann").json["id"]
    first = await client.enrol("drip", "ann")
    again = await other.enrol("drip", number)
    assert (again.id, again.duplicate, again.status) == (first.id, True, "active")
    assert (first.version, first.next_step_at) == (again.version, again.next_step_at)
    assert await other.contact_event("returned", "ann") == 0
    assert await client.contact_event("bought", number) == 1
    assert (await client.enrol("drip", "ann")).id != first.id
    assert await other.contact_event("bought", "ann") == 1


async def test_what_is_refused_is_refused_alike(client: AnyClient, api: Caller) -> None:
    with pytest.raises(NotFound, match="nobody"):
        await client.enrol("drip", "nobody")
    with pytest.raises(NotFound, match="nothing"):
        await client.enrol("nothing", "ann")
    with pytest.raises(Conflict, match="draft"):
        await client.enrol("draft", "ann")
    with pytest.raises(NotFound):
        await client.contact_event("bought", "nobody")
