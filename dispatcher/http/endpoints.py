"""Endpoints: each declares once its name, right, query, body, answer and handler; everything else is derived."""

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

# The media type of a body of bytes.
RAW = "application/octet-stream"
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_raw = msgspec.json.Decoder(dict[str, Raw]).decode


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Served(Struct, frozen=True):
    """The services of handlers. `shed` raises Problem if too much is waiting for these channels (None: for any)."""

    config: Callable[[], Config]
    shed: Callable[[Sequence[str] | None], Awaitable[None]]
    # For calls that would hold the event loop.
    offload: Offload
    # Writes a trigger in one transaction with others, and returns its run; None for a local operator.
    trigger: Callable[[Any], Awaitable[Any]] | None
    # What goes on in all workspaces; None for a local operator.
    system: Callable[[], Awaitable[Any]] | None = None


class Part(Struct, frozen=True):
    """The part of the database that a call is about; None means all, for a local operator only."""

    tenant_id: str | None
    workspace_id: str | None


class Call(Struct, frozen=True):
    """A validated request of a caller with a key, or of a local operator."""

    served: Served
    # None for a local operator's command.
    shown: Key | None
    part: Part
    database: Database
    path: Mapping[str, str]
    query: Any
    given: Any
    body: bytes
    idempotency_key: str | None
    # The If-Match field.
    if_match: str | None
    # The name of a local operator.
    operator: str = ""
    # The traceparent of a request to an endpoint that is `traced`.
    traceparent: str | None = None

    @property
    def key(self) -> Key:
        """Return the key of a request over HTTP."""
        if self.shown is None:
            raise RuntimeError("a local command shows no key")
        return self.shown

    @property
    def workspace(self) -> Workspace:
        """Return the one workspace that it is about."""
        if self.part.tenant_id is None or self.part.workspace_id is None:
            raise RuntimeError("this command is about several workspaces, and the endpoint about one")
        return Workspace(self.part.tenant_id, self.part.workspace_id)

    @property
    def actor(self) -> str:
        """Return the actor, for the audit log."""
        return self.operator if self.shown is None else f"key {self.shown.name}"

    def owns(self, row: Mapping[str, Any] | None) -> bool:
        """Whether a row exists, and is in the part of the database that the call is about."""
        if row is None:
            return False
        tenant_id, workspace_id = self.part.tenant_id, self.part.workspace_id
        return tenant_id in (None, row["tenant_id"]) and workspace_id in (None, row["workspace_id"])

    def number(self, name: str, what: str) -> int:
        """Return an id of the path. Raises Problem (not found) for what cannot be an id."""
        text = self.path[name]
        if not (text.isascii() and text.isdecimal() and len(text) < len(str(cursors.ID_MAX))):
            raise not_found(f"{what} {text[:40]}")
        return int(text)

    def named(self, what: str) -> str:
        """Return the name of the path. Raises Problem (not found) for what cannot be a name."""
        name = self.path["name"]
        if not NAME.fullmatch(name):
            raise not_found(f"{what} {name[:101]!r}: a name has {NAME_WORDS}")
        return name

    def raw(self, name: str) -> str:
        """Return an object of the body as it was written: decoding it would round its numbers."""
        found = _raw(self.body).get(name)
        return "{}" if found is None else bytes(found).decode()


class Done(Struct, frozen=True):
    """An answer."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = {}


class Endpoint(Struct, frozen=True, kw_only=True):
    """The declaration of an endpoint."""

    operation: str
    method: Method
    path: str
    # None: any key that is good.
    right: Right | None
    summary: str
    description: str = ""
    query: type[Struct] = Nothing
    given: type[Struct] | None = None
    # Whether its body may also be RAW: `Call.given` is bytes then.
    raw: bool = False
    example: Mapping[str, Any] | None = None
    answer: Any
    # An example of an answer.
    answered: Struct
    status: int = 200
    # Its problems beside those of all endpoints.
    problems: Sequence[Kind] = ()
    handle: Callable[[Call], Awaitable[Done]]
    # Whether the body is only parsed as JSON, and read by the handler.
    reads_itself: bool = False
    large: bool = False
    # Whether its work is batched with that of other requests, by `served`: it has no transaction of its own.
    gathers: bool = False
    # The older interface: each body that it takes, and the data of its answer in an envelope.
    enveloped: Sequence[tuple[type[Struct], type[Struct]]] = ()
    # Whether its answer has a secret, so that it is not stored for repeated requests.
    shown_once: bool = False
    # Whether its answer has an ETag, for If-Match; that of a POST is the `version` in its answer.
    tagged: bool = False
    # What it creates: its name in other paths, and the field of the answer that has it.
    makes: tuple[str, str] | None = None
    # Further schemas that its models refer to.
    schemas: Mapping[str, Any] = {}
    # Whether it is a POST that changes nothing, and needs no Idempotency-Key.
    looks: bool = False
    # Whether what it writes carries the traceparent of its request.
    traced: bool = False
    # Whether operators may use an id of another workspace in its path.
    elsewhere: bool = False

    @property
    def heeds_if_match(self) -> bool:
        """Whether it honours If-Match."""
        return self.tagged and self.method not in ("GET", "POST")

    @property
    def tag(self) -> str:
        """Return its tag in the OpenAPI document."""
        return self.path.split("/")[1]

    @property
    def names(self) -> list[str]:
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
