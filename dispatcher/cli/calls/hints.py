"""Hints: a name that is near to one that nothing has."""

from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher.base.errors import did_you_mean
from dispatcher.cli.calls.caller import Caller
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import NOT_FOUND, Problem


@contextmanager
def hinted(caller: Caller, names: Endpoint, name: str) -> Iterator[None]:
    """Where there is nothing of a name, say which one of a list may be meant."""
    try:
        yield
    except Problem as problem:
        if problem.kind is not NOT_FOUND:
            raise
        known = caller.names(names)
        hint = "" if name in known else did_you_mean(name, known)
        raise Problem(NOT_FOUND, f"{problem.detail}{hint}") from problem
