"""Endpoints: each says once what it is called, who may use it, what it takes and what it answers; all else follows."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from dispatcher.base.values.names import NAME, NAME_WORDS
from dispatcher.base.worker_process import Offload
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.http import cursors
from dispatcher.http.problems import Kind, not_found
from dispatcher.http.roles import Right
from dispatcher.http.server.authentication import Key

# What a body is that is not JSON, but the bytes that it is about.
RAW = "application/octet-stream"
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_raw = msgspec.json.Decoder(dict[str, Raw]).decode


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Served(Struct, frozen=True):
    """What endpoints work with. `shed` raises a Problem where too much is waiting for some channels, or for any."""

    config: Callable[[], Config]
    shed: Callable[[Sequence[str] | None], Awaitable[None]]
    # Makes the calls that would hold the event loop.
    offload: Offload
    # Writes a trigger in one transaction with those of others, and answers its run; None where nobody else has any.
    trigger: Callable[[Any], Awaitable[Any]] | None


class Part(Struct, frozen=True):
    """The part of the database that a call is about; None: all of them, which only a local operator may look at."""

    tenant_id: str | None
    workspace_id: str | None


class Call(Struct, frozen=True):
    """One request that may be made, read and sound: of a caller who has shown a key, or of a local operator."""

    served: Served
    # The key that was shown; None for a local operator's command.
    shown: Key | None
    # The workspace that it is about, or more of the database.
    part: Part
    database: Database
    path: Mapping[str, str]
    query: Any
    given: Any
    body: bytes
    # Of its Idempotency-Key; None without one.
    idempotency_key: str | None
    # What has to be there still for it to be done; None where anything may be.
    if_match: str | None
    # Who a local operator is.
    operator: str = ""

    @property
    def key(self) -> Key:
        """The key of a request over HTTP."""
        if self.shown is None:
            raise RuntimeError("a local command shows no key")
        return self.shown

    @property
    def workspace(self) -> Workspace:
        """The one workspace that it is about."""
        if self.part.tenant_id is None or self.part.workspace_id is None:
            raise RuntimeError("this command is about several workspaces, and the endpoint about one")
        return Workspace(self.part.tenant_id, self.part.workspace_id)

    @property
    def actor(self) -> str:
        """Who does it, for the audit log."""
        return self.operator if self.shown is None else f"key {self.shown.name}"

    def owns(self, row: Mapping[str, Any] | None) -> bool:
        """Whether there is a row, in the part of the database that the call is about."""
        if row is None:
            return False
        tenant_id, workspace_id = self.part.tenant_id, self.part.workspace_id
        return tenant_id in (None, row["tenant_id"]) and workspace_id in (None, row["workspace_id"])

    def number(self, name: str, what: str) -> int:
        """An id in the path. What cannot be one is the id of nothing."""
        text = self.path[name]
        if not (text.isascii() and text.isdecimal() and len(text) < len(str(cursors.ID_MAX))):
            raise not_found(f"{what} {text[:40]}")
        return int(text)

    def named(self, what: str) -> str:
        """The name in the path. What cannot be one is the name of nothing."""
        name = self.path["name"]
        if not NAME.fullmatch(name):
            raise not_found(f"{what} {name[:101]!r}: a name has {NAME_WORDS}")
        return name

    def raw(self, name: str) -> str:
        """An object in the body as it was written: reading and writing it would round its numbers."""
        found = _raw(self.body).get(name)
        return "{}" if found is None else bytes(found).decode()


class Done(Struct, frozen=True):
    """What is answered. It is encoded as it is."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = {}


class Endpoint(Struct, frozen=True, kw_only=True):
    """One way to ask for one thing."""

    operation: str
    method: Method
    path: str
    # None: any key that is good.
    right: Right | None
    summary: str
    description: str = ""
    query: type[Struct] = Nothing
    given: type[Struct] | None = None
    # Whether its body may also be RAW: `given` is bytes then.
    raw: bool = False
    example: Mapping[str, Any] | None = None
    answer: Any
    # An example of an answer.
    answered: Struct
    status: int = 200
    # What it may answer beside what all may.
    problems: Sequence[Kind] = ()
    handle: Callable[[Call], Awaitable[Done]]
    # Whether the body is only scanned, and read by the endpoint itself.
    reads_itself: bool = False
    large: bool = False
    # Whether it is done together with what others ask for, by `served`, and touches no database itself.
    gathers: bool = False
    # The older interface: each body that it takes, and the data that it answers to that in an envelope.
    enveloped: Sequence[tuple[type[Struct], type[Struct]]] = ()
    # Whether there is a secret in what it answers, which is not kept to be answered again.
    shown_once: bool = False
    # Whether what it answers has an ETag, for If-Match: where it is a POST, of the `version` in its answer.
    tagged: bool = False
    # The name in other paths of what it makes, and the field of its answer that has it.
    makes: tuple[str, str] | None = None
    # Schemas that its models refer to and that are no models themselves.
    schemas: Mapping[str, Any] = {}
    # Whether it is a POST that changes nothing: it needs no Idempotency-Key.
    looks: bool = False
    # Whether operators may ask for what is in another workspace by the id in its path alone.
    elsewhere: bool = False

    @property
    def heeds_if_match(self) -> bool:
        """Whether it is done only where what it changes has still the ETag that is named."""
        return self.tagged and self.method not in ("GET", "POST")

    @property
    def tag(self) -> str:
        """What it is listed under."""
        return self.path.split("/")[1]

    @property
    def names(self) -> list[str]:
        """The names in its path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


Handle = Callable[[Call], Awaitable[Done]]


def endpoint(
    method: Method,
    path: str,
    right: Right | None,
    *,
    answered: Struct,
    description: str = "",
    **more: Any,  # noqa: ANN401 - the other fields of Endpoint, checked by it
) -> Callable[[Handle], Endpoint]:
    """Make an endpoint of the handler below: named after it, described by its docstring, with an example answer.

    The first line of the docstring is the summary, the rest the description, to which `description` adds what several
    endpoints have in common. `list_things` becomes listThings.
    """

    def make(handle: Handle) -> Endpoint:
        summary, _, rest = cleandoc(handle.__doc__ or "").partition("\n")
        first, *others = handle.__name__.split("_")
        return Endpoint(
            operation=first + "".join(word.title() for word in others),
            method=method,
            path=path,
            right=right,
            summary=summary.removesuffix("."),
            description=" ".join((*rest.split(), description)).strip(),
            answer=type(answered),
            answered=answered,
            handle=handle,
            **more,
        )

    return make
