"""Mutations: what a seeded dice does to a request, from nothing at all to bytes that are no JSON any more."""

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import msgspec

from bench.fuzzing.corpus import Asked

UNTOUCHED = 0.25
# Of the objects and lists in a body, one that is further inside is meant this often.
DEEPER = 0.6
MUTATIONS_MAX = 3
# So few that many requests share one.
IDEMPOTENCY_KEYS = 3_000
IDS = 1_500
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**300, 1e308, 5e-324, 0.1),
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "\ufeff",
        "\u202e",
        "\U0001f600",
        "x" * 300,
        "x" * 5_000,
        "{{ x",
        "{% for",
        "{{ name }}",
    ),
    *("' OR 1=1 --", "null", "1", "true", "email", "sms", "push", "voice", "nowhere", "../../etc/passwd", "\r\nX: y"),
    *("2030-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2030-02-30T00:00:00Z", "now"),
    *([], [[]], [None], {}, {"": {}}, {"a": {"b": [None]}}, {"body": "{{ x }}"}, {"a": 1, "b": [1, "2", {"c": None}]}),
)
PLACES = (
    *("0", "-1", "1e3", "x", "9" * 18, "9" * 19, "9" * 40, "bench", "%00", "%ff", "..", "%2e%2e", "a%2Fb", "%C3%A4"),
    *("'", "1;", "%F0%9F%98%80", "a" * 300, "%" + "61%" * 50 + "61", "null", "%0d%0a", "+", "*", "1?x=1"),
)
CURSORS = (
    "x",
    "",
    "=",
    "ZGVsaXZlcmllcyAxNw",
    "cnVucyAx",
    "aGVsZCAxIDE",
    "bG9nIDE",
    "A" * 200,
    "%00",
    "d29ya2Zsb3dzIGFmdGVyIGE",
)
TYPES = ("text/plain", "application/json; charset=utf-8", "application/xml", "multipart/form-data", "", "json", "a/b/c")
HEADERS = (
    *(
        ("If-Match", '"1"'),
        ("If-Match", "*"),
        ("If-Match", ""),
        ("If-Match", "W/" + "x" * 500),
        ("Idempotency-Key", ""),
    ),
    *(
        ("Idempotency-Key", "a b"),
        ("Idempotency-Key", "x" * 256),
        ("X-Request-Id", "<script>"),
        ("X-Request-Id", "t-1"),
    ),
    *(("Accept-Encoding", "gzip"), ("Accept", "text/html"), ("Accept", "\xff"), ("Origin", "https://evil.example")),
    *(("Content-Encoding", "br"), ("Range", "bytes=0-1"), ("Connection", "close"), ("Expect", "100-continue")),
    *(("Host", "y"), ("Transfer-Encoding", "gzip"), ("Upgrade", "h2c"), ("X-Long", "x" * 20_000), ("Cookie", "a=b")),
)
_ID = re.compile(r"(?<=/)[0-9]+(?=/|$)")


class Mutator:
    """Does something to requests. The same dice do the same things again."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._all: Sequence[Callable[[Asked], Asked]] = (
            *(self._value, self._value, self._value, self._drop, self._add),
            *(self._double, self._bytes, self._bytes, self._cut, self._bomb),
            *(self._method, self._place, self._place, self._query, self._cursor),
            *(self._header, self._header, self._type, self._once, self._gzip),
        )

    def next(self, asked: Asked) -> Asked:
        """It, with as much done to it as the dice say."""
        if ids := _ID.search(asked.path):
            number = str(self._dice.randint(1, IDS))
            asked = _with(asked, path=asked.path[: ids.start()] + number + asked.path[ids.end() :])
        if self._dice.random() < UNTOUCHED:
            return asked
        for _ in range(self._dice.randint(1, MUTATIONS_MAX)):
            asked = self._dice.choice(self._all)(asked)
        return asked

    # In what the body says

    def _value(self, asked: Asked) -> Asked:
        return self._inside(asked, lambda inside, name: inside.__setitem__(name, deepcopy(self._dice.choice(VALUES))))

    def _drop(self, asked: Asked) -> Asked:
        return self._inside(asked, lambda inside, name: inside.__delitem__(name))

    def _add(self, asked: Asked) -> Asked:
        def add(inside: Any, _: object) -> None:  # noqa: ANN401 - a list or an object
            value = deepcopy(self._dice.choice(VALUES))
            if isinstance(inside, list):
                inside.append(value)
            else:
                inside[str(self._dice.choice(VALUES))] = value

        return self._inside(asked, add)

    def _inside(self, asked: Asked, change: Callable[[Any, Any], None]) -> Asked:
        try:
            body = json.loads(asked.body or b"")
        except (ValueError, RecursionError):
            return self._bytes(asked)
        inside: Any = body
        while isinstance(inside, dict | list) and inside:
            name = self._dice.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            if isinstance(inside[name], dict | list) and inside[name] and self._dice.random() < DEEPER:
                inside = inside[name]
                continue
            change(inside, name)
            break
        return _with(asked, body=json.dumps(body).encode())

    # In its bytes

    def _double(self, asked: Asked) -> Asked:
        body = asked.body or b"{}"
        return _with(asked, body=body.replace(b"{", b'{"reason": "twice", "reason": 2, ', 1))

    def _bytes(self, asked: Asked) -> Asked:
        body = bytearray(asked.body or b"{}")
        for _ in range(self._dice.randint(1, 6)):
            at = self._dice.randrange(len(body) + 1)
            body[at : at + self._dice.randint(0, 2)] = self._dice.randbytes(self._dice.randint(0, 3))
        return _with(asked, body=bytes(body))

    def _cut(self, asked: Asked) -> Asked:
        body = asked.body or b"{}"
        at = self._dice.randrange(len(body) + 1)
        return _with(
            asked, body=self._dice.choice((body[:at], body[at:], body + body[at:], b"\xef\xbb\xbf" + body, b""))
        )

    def _bomb(self, asked: Asked) -> Asked:
        size = int(10 ** self._dice.uniform(1, 5.3))
        return _with(
            asked,
            body=self._dice.choice(
                (
                    b"[" * size,
                    b'{"a":' * size + b"1" + b"}" * size,
                    b'{"reason": ' + b"1" * size + b"}",
                    b'{"reason": "' + b"x" * size + b'"}',
                    b'{"reason": "' + b"\\u0000" * (size // 6) + b'"}',
                    b"{" + b",".join(b'"f%d": 1' % number for number in range(size // 10)) + b"}",
                    b'{"deliveries": [' + b"{}," * (size // 3) + b"{}]}",
                    b'{"input": {"a": [' + b"[]," * (size // 3) + b"[]]}}",
                )
            ),
        )

    # Around it

    def _method(self, asked: Asked) -> Asked:
        return _with(asked, method=self._dice.choice(METHODS))

    def _place(self, asked: Asked) -> Asked:
        parts = asked.path.split("/")
        parts[self._dice.randrange(1, len(parts))] = self._dice.choice(PLACES)
        return _with(asked, path="/".join(parts))

    def _query(self, asked: Asked) -> Asked:
        names = ("limit", "life", "status", "since", "channel", "idempotency_key", "x", "", "limit")
        value = quote(str(self._dice.choice(VALUES))[:2_000], errors="replace")
        more = f"{self._dice.choice(names)}={value}" * self._dice.choice((1, 1, 1, 2, 60))
        return _with(asked, query=f"{asked.query}&{more}" if asked.query else more)

    def _cursor(self, asked: Asked) -> Asked:
        return _with(asked, query=f"cursor={self._dice.choice(CURSORS)}&limit={self._dice.randint(0, 501)}")

    def _header(self, asked: Asked) -> Asked:
        return _with(asked, headers=[*asked.headers, self._dice.choice(HEADERS)])

    def _type(self, asked: Asked) -> Asked:
        kept = [one for one in asked.headers if one[0] != "Content-Type"]
        return _with(asked, headers=[*kept, ("Content-Type", self._dice.choice(TYPES))])

    def _once(self, asked: Asked) -> Asked:
        kept = [one for one in asked.headers if one[0] != "Idempotency-Key"]
        return _with(asked, headers=[*kept, ("Idempotency-Key", f"key-{self._dice.randrange(IDEMPOTENCY_KEYS)}")])

    def _gzip(self, asked: Asked) -> Asked:
        return _with(
            asked, body=gzip.compress(asked.body or b"{}"), headers=[*asked.headers, ("Content-Encoding", "gzip")]
        )


def _with(asked: Asked, **changes: object) -> Asked:
    return msgspec.structs.replace(asked, **changes)
