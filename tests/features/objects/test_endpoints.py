"""Objects over HTTP: kept under names that mean one content for ever, seen without it, and erased."""

import hashlib
from base64 import b64encode

import pytest

from dispatcher.features.objects.models import OBJECT_BYTES_MAX
from dispatcher.http.endpoints import RAW
from tests.support.caller import Answer, Caller, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.walking import walk


def put(caller: Caller, name: str, content: bytes = b"abc", content_type: str = "application/pdf") -> Answer:
    """Keep one."""
    said = {"content": b64encode(content).decode(), "content_type": content_type}
    return caller.call("PUT", f"/objects/{name}", said)


async def test_an_object_is_kept_seen_erased_and_put_back(admin: Caller, inside: Connection) -> None:
    made = put(admin, "terms%2F2030.pdf")
    assert (made.status, made.json["answer"], made.json["name"]) == (201, "stored", "terms/2030.pdf")
    assert (made.json["size"], made.json["sha256"]) == (3, hashlib.sha256(b"abc").hexdigest())
    assert (put(admin, "terms%2F2030.pdf").status, put(admin, "terms%2F2030.pdf").json["answer"]) == (200, "same")
    for answer in (put(admin, "terms%2F2030.pdf", b"abd"), put(admin, "terms%2F2030.pdf", b"abc", "text/plain")):
        assert (answer.status, "another name" in answer.json["detail"]) == (409, True)
    assert admin.get("/objects/terms%2F2030.pdf").json == {
        name: value for name, value in made.json.items() if name != "answer"
    }
    erased = [admin.call("POST", "/objects/terms%2F2030.pdf/erase").json["answer"] for _ in range(2)]
    assert erased == ["erased", "erased before"]
    assert admin.get("/objects/terms%2F2030.pdf").json["erased_at"] is not None
    assert put(admin, "terms%2F2030.pdf").json["answer"] == "restored"
    kept = await inside.fetchval("SELECT content FROM dispatcher.objects WHERE name = 'terms/2030.pdf'")
    assert kept == b"abc"


async def test_a_large_one_is_kept(admin: Caller) -> None:
    content = bytes(range(256)) * 4 * 1024 * 8
    assert put(admin, "large", content).json["size"] == len(content) == 8 * 1024 * 1024


def put_raw(caller: Caller, name: str, content: bytes, query: str = "", kind: str = RAW) -> Answer:
    """Keep one whose bytes are the body."""
    return caller.call("PUT", f"/objects/{name}{query}", content, [("content-type", kind)])


async def test_a_file_is_put_as_it_is(admin: Caller, inside: Connection) -> None:
    content = b'{"content": "YWJj"}\r\n\0\xff'
    made = put_raw(admin, "as-it-is", content, "?content_type=application/json")
    assert (made.status, made.json["answer"]) == (201, "stored")
    assert (made.json["content_type"], made.json["size"]) == ("application/json", len(content))
    assert await inside.fetchval("SELECT content FROM dispatcher.objects WHERE name = 'as-it-is'") == content
    # It is the same one, however it was said.
    assert put(admin, "as-it-is", content, "application/json").json["answer"] == "same"
    assert put_raw(admin, "as-it-is", content).json["answer"] == "taken"
    assert put_raw(admin, "empty", b"").json["content_type"] == RAW
    assert list(put_raw(admin, "wrong", b"x", "?content_type=pdf").faults) == ["query.content_type"]
    json = admin.call("PUT", "/objects/wrong?content_type=text/plain", {"content": "YWJj"})
    assert list(json.faults) == ["query.content_type"]
    assert put_raw(admin, "wrong", b"x", kind="application/pdf").status == 415
    assert admin.call("POST", "/objects/wrong", b"x", [("content-type", RAW)]).status == 405
    assert admin.call("POST", "/deliveries", b"{}", [("content-type", RAW)]).status == 415
    assert admin.get("/objects/wrong").status == 404


async def test_the_largest_is_kept_and_nothing_larger(program: Program) -> None:
    await program.start(DISPATCHER_API__BATCH_BYTES_MAX=str(OBJECT_BYTES_MAX + 1))
    admin = Caller(program, make_key(program))
    assert put_raw(admin, "largest", bytes(OBJECT_BYTES_MAX)).json["size"] == OBJECT_BYTES_MAX
    assert put_raw(admin, "larger", bytes(OBJECT_BYTES_MAX + 1)).faults == {
        "$": f"is larger than {OBJECT_BYTES_MAX} bytes"
    }
    refused = put_raw(admin, "larger", bytes(OBJECT_BYTES_MAX + 2))
    assert (refused.status, refused.json["detail"]) == (413, f"its body is over {OBJECT_BYTES_MAX + 1} bytes")


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"content": "no base64!"}, "$.content"),
        ({"content": "YWJj", "content_type": "nothing"}, "$.content_type"),
        ({"content_type": "text/plain"}, "$.content"),
        ({"content": "YWJj", "name": "x"}, "$.name"),
    ],
)
async def test_faults_of_an_object_are_named(admin: Caller, said: dict[str, str], path: str) -> None:
    assert list(admin.call("PUT", "/objects/wrong", said).faults) == [path]
    assert admin.get("/objects/wrong").status == admin.call("POST", "/objects/wrong/erase").status == 404
    assert put(admin, "%20").status == 404


async def test_objects_are_walked_page_by_page_and_are_of_a_workspace(admin: Caller) -> None:
    beside = Caller(admin.program, make_key(admin.program, "systemAdmin", "default", "beside"))
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        assert put(admin, name).status == 201
    assert [one["name"] for one in walk(admin, "/objects") if one["name"].startswith("page-")] == names
    assert [one["name"] for one in admin.get("/objects?after=page-2&limit=2").json["objects"]] == names[3:]
    assert list(admin.get("/objects?cursor=nonsense").faults) == ["query.cursor"]
    assert walk(beside, "/objects") == []
    assert beside.get("/objects/page-1").status == beside.call("POST", "/objects/page-1/erase").status == 404
