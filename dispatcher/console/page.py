"""Pages: each declares its path and right, and has a function that answers a visit; forms declare what they ask for."""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from msgspec import Struct

from dispatcher.console.forms import Field, Form, read_form
from dispatcher.console.visit import Answer, Visit
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import FAULTY, Problem
from dispatcher.http.roles import Right

Show = Callable[[Visit], Awaitable[Answer]]
Draw = Callable[[Visit], Awaitable[Form]]


class Page(Struct, frozen=True, kw_only=True):
    """A page. `path` is below /console; `section` is the part of the navigation that it belongs to."""

    path: str
    right: Right | None
    show: Show
    # What its form does; None where it has none.
    act: Show | None = None
    section: str = ""
    # Whether it answers with something else than a page: a message for a frame, or a file.
    raw: bool = False


def page(path: str, right: Right | None, *, section: str = "", raw: bool = False) -> Callable[[Show], Page]:
    """Declare a page: the function below answers GET."""

    def make(show: Show) -> Page:
        return Page(path=path, right=right, show=show, section=section or _first(path), raw=raw)

    return make


def form(path: str, asks: Endpoint, *, right: Right | None = None, section: str = "") -> Callable[[Draw], Page]:
    """Declare an action: the function below returns its form; a POST of it calls the endpoint `asks`.

    The names in the path are those of the endpoint's path; the form's fields have those that the page's path lacks. The
    other fields become the endpoint's body; an endpoint without a body takes them as its query. With a `version`, what
    another has changed meanwhile is not overwritten. Afterwards the visitor is sent to `Form.back` with a message.
    """

    def make(draw: Draw) -> Page:
        async def show(visit: Visit) -> Answer:
            return _shown(visit, await draw(visit))

        async def act(visit: Visit) -> Answer:
            return await _acted(visit, await draw(visit), asks)

        return Page(path=path, right=right or asks.right, show=show, act=act, section=section or _first(path))

    return make


def _first(path: str) -> str:
    return path.split("/")[1]


def _shown(visit: Visit, made: Form, problem: Problem | None = None) -> Answer:
    status = 200 if problem is None else problem.kind.status
    return visit.show("_form.html", form=made, problem=problem, given=visit.form, status=status)


async def _acted(visit: Visit, made: Form, asks: Endpoint) -> Answer:
    try:
        body = read_form(made, visit.form)
        answer = await (_asked(visit, asks, body) if made.act is None else made.act(visit, body))
    except Problem as problem:
        if problem.kind.status >= FAULTY.status + 100:
            raise
        return _shown(visit, made, problem)
    if isinstance(answer, Answer):
        return answer
    words = made.done or getattr(answer, "message", "") or "Done."
    back = made.back(answer) if callable(made.back) else made.back
    return visit.go(back, words)


async def _asked(visit: Visit, asks: Endpoint, body: dict[str, Any]) -> object:
    names = [visit.path[name] if name in visit.path else body.pop(name) for name in asks.names]
    if asks.given is None:
        return await visit.ask(asks, *names, query=body)
    return await visit.ask(asks, *names, version=body.pop("version", None), body=body)


def operation(endpoints: Sequence[Endpoint], name: str) -> Endpoint:
    """Return the endpoint of an operation, for those that are made in a loop."""
    return next(one for one in endpoints if one.operation == name)


def discovered() -> Sequence[Page]:
    """Return the pages of all modules below `pages`, in the order of their names."""
    package = import_module("dispatcher.console.pages")
    names = sorted(one.name for one in walk_packages(package.__path__, f"{package.__name__}."))
    return [one for name in names for one in vars(import_module(name)).values() if isinstance(one, Page)]


__all__ = ["Answer", "Field", "Form", "Page", "Visit", "form", "operation", "page"]
