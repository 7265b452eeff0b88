"""The caller: the one way from a command to an endpoint, whose handler runs in this process or on a server.

Without DISPATCHER_URL the handler is called here, in a transaction on the configured database, as the role that
connects; with it the endpoint is asked for over HTTP. Both read the same query and body by the same models, raise the
same Problem, and answer the same struct. Nothing here knows a feature.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import typer
from msgspec import Struct

from dispatcher.api.endpoints import Endpoint
from dispatcher.api.problems import NOT_FOUND, Problem
from dispatcher.cli.operating import require_words, text_fault, who
from dispatcher.cli.session import Session
from dispatcher.store.templates import Workspace

# What an endpoint answers at once at most, and what it takes.
PAGE_MAX = 500
WORKSPACE_MAX = 100
# What a model calls the workspace of its row, where operators may name any.
PLACE = ("tenant_id", "workspace_id")


class Given(Struct, frozen=True):
    """What the options say that `command` adds: whose it is, who acts, and which part of a list is wanted."""

    tenant: str | None = None
    workspace: str | None = None
    actor: str | None = None
    after: str = ""
    limit: int = PAGE_MAX
    acts: bool = False


class Request(Struct, frozen=True):
    """A call of an endpoint. `names_workspace` says whether its model has the workspace in it."""

    endpoint: Endpoint
    path: Mapping[str, str]
    query: Mapping[str, str]
    # JSON, or where the endpoint takes that the bytes of a file.
    body: bytes | None
    is_file: bool
    names_workspace: bool


class Way(Protocol):
    """Where endpoints are called."""

    async def ask(self, request: Request) -> object:
        """The answer; raises Problem."""


class Caller:
    """Calls endpoints for one command. It is opened by the first call, so that wrong usage reaches nothing."""

    def __init__(self, session: Session, given: Given) -> None:
        self.session = session
        self.voice = session.voice
        self.given = given
        for option, text in (("--tenant", given.tenant), ("--workspace", given.workspace)):
            if text is not None:
                require_words(option, text)
                if len(text) > WORKSPACE_MAX:
                    raise typer.BadParameter(f"is longer than {WORKSPACE_MAX} characters", param_hint=option)
        self.operator = who(session, given.actor) if given.acts else ""
        self._opened = ExitStack()
        self._way: Way | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def ask(self, endpoint: Endpoint, *names: str | int, body: object = None, **query: object) -> Any:  # noqa: ANN401 - a struct of the endpoint's own
        """Call an endpoint: what it answers. Names are those in its path; a None in query or body is left out."""
        request = self._request(endpoint, names, body, query)
        way = self._open()
        return self.session.run(lambda: way.ask(request))

    def listed(self, endpoint: Endpoint, *names: str | int, **query: object) -> list[Any]:
        """The rows of a list, page by page, as many as --limit says and behind what --after names."""
        if self.given.after:
            query["after"] = self.given.after
        found: list[Any] = []
        for page in self._pages(endpoint, names, query):
            found += getattr(page, page.__struct_fields__[0])
            if len(found) >= self.given.limit:
                break
        return found

    def _pages(self, endpoint: Endpoint, names: tuple[str | int, ...], query: dict[str, object]) -> Iterator[Any]:
        left, cursor = self.given.limit, None
        while left > 0:
            page = self.ask(endpoint, *names, **query | {"limit": min(PAGE_MAX, left), "cursor": cursor})
            yield page
            left, cursor = left - PAGE_MAX, page.next_cursor
            if cursor is None:
                break

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
        """Name the workspace in the query or the body of an endpoint that is for operators; whether it has a place."""
        for fields, into in ((endpoint.query, query), (endpoint.given, body)):
            if into is not None and fields is not None and set(PLACE) <= set(fields.__struct_fields__):
                for name, given in zip(PLACE, (self.given.tenant, self.given.workspace), strict=True):
                    into.setdefault(name, given)
                return True
        return False

    def _open(self) -> Way:
        if self._way is None:
            self._way = self._here() if self.session.address is None else self._there()
        return self._way

    def _here(self) -> Way:
        from dispatcher.cli.local import Local  # noqa: PLC0415 - what writes a message loads much that others do not use

        database = self._opened.enter_context(self.session.database())
        whose = Workspace(self.given.tenant or "default", self.given.workspace or "default")
        return Local(database, lambda: self.session.config, whose, self.operator)

    def _there(self) -> Way:
        from dispatcher.cli.remote import Remote  # noqa: PLC0415 - HTTP takes as long to import as all the rest

        transport = self._opened.enter_context(self.session.transport())
        return Remote(transport, self.given.tenant, self.given.workspace)


def _plain(value: object) -> str:
    """A value as a parameter of a URL has it."""
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
