"""The caller: it calls an endpoint for a command, whose handler runs in this process or on a server.

Without DISPATCHER_URL the handler runs here, in a transaction on the configured database, as the role that connects;
with it the endpoint is called over HTTP. Both read the same query and body by the same models, raise the same Problem,
and answer the same struct. Nothing here imports a feature.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import msgspec
import typer
from msgspec import Struct, structs

from dispatcher.base.errors import did_you_mean
from dispatcher.base.workspace import Workspace
from dispatcher.cli.options import require_words, text_fault, who
from dispatcher.cli.session import Session
from dispatcher.db.database import Database
from dispatcher.http.endpoints import Endpoint, Part
from dispatcher.http.problems import FAULTY, NOT_FOUND, TOO_LARGE, Problem

# The rows of a page, at most.
PAGE_MAX = 500
# The rows that a command lists, at most.
LIMIT_MAX = 10_000
WORKSPACE_MAX = 100
# The fields of a workspace in a model for operators, which may name any.
PLACE = ("tenant_id", "workspace_id")

T = TypeVar("T")


class Options(Struct, frozen=True):
    """The options that `command` adds: the workspace, the actor, and the part of a list."""

    tenant: str | None = None
    workspace: str | None = None
    actor: str | None = None
    after: str = ""
    limit: int = LIMIT_MAX
    acts: bool = False
    spans: bool = False
    # It is run in every cell, also in those where its tenant is not.
    all_cells: bool = False


class Request(Struct, frozen=True):
    """A call of an endpoint. `names_workspace` says whether its model has a workspace."""

    endpoint: Endpoint
    path: Mapping[str, str]
    query: Mapping[str, str]
    # JSON, or the bytes of a file.
    body: bytes | None
    is_file: bool
    names_workspace: bool
    # Whether a local command looks in all workspaces.
    anywhere: bool = False


class Backend(Protocol):
    """The place where endpoints are called."""

    async def ask(self, request: Request) -> object:
        """Return the answer; raises Problem."""

    async def workspace(self) -> Workspace:
        """Return the workspace of the call; raises OtherWorkspace where the options name another."""


class Caller:
    """Calls endpoints for a command. The first call opens it, so that wrong usage connects to nothing."""

    def __init__(self, session: Session, given: Options) -> None:
        self.session = session
        self.output = session.output
        self.given = given
        for option, text in (("--tenant", given.tenant), ("--workspace", given.workspace)):
            if text is not None:
                require_words(option, text)
                if len(text) > WORKSPACE_MAX:
                    raise typer.BadParameter(f"is longer than {WORKSPACE_MAX} characters", param_hint=option)
        if given.tenant is not None and not given.all_cells:
            session.enter_cell_of(given.tenant)
        self.operator = who(session, given.actor) if given.acts else ""
        self._opened = ExitStack()
        self._backend: Backend | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def ask(self, endpoint: Endpoint, *names: str | int, body: object = None, **query: object) -> Any:  # noqa: ANN401 - a struct of the endpoint's own
        """Call an endpoint and return its answer. Names are those in its path; None in query or body is left out."""
        return self._ask(self._request(endpoint, names, body, query))

    def ask_by_id(self, endpoint: Endpoint, number: int, body: object = None) -> Any:  # noqa: ANN401 - as above
        """As `ask`, by an id that a local command finds in any workspace."""
        return self._ask(structs.replace(self._request(endpoint, (number,), body, {}), anywhere=True))

    def _ask(self, request: Request) -> Any:  # noqa: ANN401 - as above
        backend = self._open()
        return self.session.run(lambda: backend.ask(request))

    async def asked(self, endpoint: Endpoint, *names: str | int, body: object = None, **query: object) -> Any:  # noqa: ANN401 - as above
        """As `ask`, inside an operation of `run`."""
        return await self._open().ask(self._request(endpoint, names, body, query))

    def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation that may be repeated."""
        self._open()
        return self.session.run(operation)

    def workspace(self) -> Workspace:
        """Return the workspace of the calls; raises OtherWorkspace where the options name another."""
        return self.session.run(self._open().workspace)

    @cached_property
    def database(self) -> Database:
        """The configured database. Raises NoRemoteForm where the environment names a server."""
        return self._opened.enter_context(self.session.database())

    def listed(self, endpoint: Endpoint, *names: str | int, **query: Any) -> list[Any]:  # noqa: ANN401 - texts, numbers
        """Return the rows of a list, as many as --limit says, from --after on."""
        limit = self.given.limit
        return list(islice(self.every(endpoint, *names, size=min(PAGE_MAX, limit), **query), limit))

    def every(
        self,
        endpoint: Endpoint,
        *names: str | int,
        body: Mapping[str, object] | None = None,
        size: int = PAGE_MAX,
        **query: object,
    ) -> Iterator[Any]:
        """Yield the rows of a list from --after on, by pages of a `size`, which a `body` asks for if there is one."""
        if self.given.after:
            query["after"] = self.given.after
        cursor = query.pop("cursor", None)
        while True:
            part = {"limit": size, "cursor": cursor}
            asked, sent = (query | part, None) if body is None else (query, {**body, **part})
            page = self.ask(endpoint, *names, body=sent, **asked)
            yield from getattr(page, page.__struct_fields__[0])
            cursor = page.next_cursor
            if cursor is None:
                return

    def names(self, endpoint: Endpoint) -> list[str]:
        """Return the names in a list, for a hint; none where the key may not see them."""
        from dispatcher.client.errors import Forbidden  # noqa: PLC0415 - HTTP takes as long to import as all the rest

        try:
            return [row.name for row in islice(self.every(endpoint), LIMIT_MAX)]
        except Forbidden:
            return []

    @contextmanager
    def hinted(self, names: Endpoint, name: str) -> Iterator[None]:
        """Where nothing has a name, add the nearest name in a list to the Problem."""
        try:
            yield
        except Problem as problem:
            if problem.kind is not NOT_FOUND:
                raise
            known = self.names(names)
            hint = "" if name in known else did_you_mean(name, known)
            raise Problem(NOT_FOUND, f"{problem.detail}{hint}") from problem

    def in_parts(
        self, endpoint: Endpoint, field: str, items: Sequence[object], **body: object
    ) -> Iterator[tuple[Sequence[object], Any]]:
        """Send many items in a `field` of the body: yields parts of them in order, each with its answer.

        A refused part is halved until a faulty item is alone: its answer is the Problem.
        """
        try:
            answer = self.ask(endpoint, body={**body, field: items})
        except Problem as problem:
            if problem.kind not in (FAULTY, TOO_LARGE):
                raise
            if len(items) > 1:
                middle = len(items) // 2
                for half in (items[:middle], items[middle:]):
                    yield from self.in_parts(endpoint, field, half, **body)
                return
            answer = problem
        yield items, answer

    def _request(
        self, endpoint: Endpoint, names: tuple[str | int, ...], body: object, query: Mapping[str, object]
    ) -> Request:
        asked, said = dict(query), dict(body) if isinstance(body, Mapping) else None
        inside = self._of_model(endpoint, asked, said)
        path = dict(zip(endpoint.names, map(str, names), strict=True))
        texts = {name: _plain(value) for name, value in asked.items() if value is not None}
        for name, text in (path | texts).items():
            _require_text(name, text)
        if "" in path.values():
            raise Problem(NOT_FOUND, "there is nothing without a name")
        content = body if isinstance(body, bytes) else None if said is None else _json(said)
        return Request(endpoint, path, texts, content, isinstance(body, bytes), inside)

    def _of_model(self, endpoint: Endpoint, query: dict[str, object], body: dict[str, Any] | None) -> bool:
        """Add the workspace to query or body of an endpoint for operators; return whether it may be named."""
        for fields, into in ((endpoint.query, query), (endpoint.given, body)):
            if into is not None and fields is not None and set(PLACE) <= set(fields.__struct_fields__):
                for name, given in zip(PLACE, (self.given.tenant, self.given.workspace), strict=True):
                    into.setdefault(name, given)
                return True
        return endpoint.elsewhere

    def _open(self) -> Backend:
        if self._backend is None and self.session.address is None:
            from dispatcher.cli.calls.local import Local  # noqa: PLC0415 - it imports much that other commands do not use

            unnamed = None if self.given.spans else "default"
            part = Part(self.given.tenant or unnamed, self.given.workspace or unnamed)
            self._backend = Local(self.database, lambda: self.session.config, part, self.operator)
        elif self._backend is None:
            from dispatcher.cli.calls.remote import Remote  # noqa: PLC0415 - HTTP takes as long to import as all the rest

            transport = self._opened.enter_context(self.session.transport())
            self._backend = Remote(transport, self.given.tenant, self.given.workspace)
        return self._backend


def _plain(value: object) -> str:
    """Return a value as a parameter of a URL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _json(body: dict[str, Any]) -> bytes:
    said = {name: value for name, value in body.items() if value is not None}
    for name, value in said.items():
        if isinstance(value, str):
            _require_text(name, value)
    try:
        return msgspec.json.encode(said)
    except UnicodeEncodeError as fault:
        raise typer.BadParameter("is not UTF-8") from fault


def _require_text(name: str, text: str) -> None:
    if (fault := text_fault(text)) is not None:
        raise typer.BadParameter(fault, param_hint=f"--{name.replace('_', '-')}")
