"""The judge: which configuration has said that there is no such channel or function."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher.base.errors import DispatcherError
from dispatcher.cli.failures import explain
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.console import plain
from dispatcher.http.problems import Problem

# What is said of names that the configuration has not.
_is_unknown = re.compile(
    r"\b(unknown (channel|provider|function)|there is no (type or channel|channel|function)\b|not configured)"
).search
# Keys of the configuration in the environment have this in their names.
SECTION = "__"


@contextmanager
def judged(session: Session) -> Iterator[None]:
    """Add a note to an error about a name that the configuration has not: which configuration that was."""
    try:
        yield
    except (DispatcherError, Problem) as error:
        said = (
            text for one in explain(error) or () for text in (one.message, *(fault.message for fault in one.faults))
        )
        if any(map(_is_unknown, said)):
            error.add_note(f"judged by {_configuration(session)}")
        raise


def _configuration(session: Session) -> str:
    if session.address is not None:
        return f"the configuration of {session.address.url}"
    if session.config_path is not None:
        words = f"the configuration in {plain(session.config_path)}"
    else:
        words = "the default configuration, as there is no --config and no DISPATCHER_CONFIG"
    own = sum(name.startswith("DISPATCHER_") and SECTION in name for name in os.environ)
    return f"{words}, with {own} of its keys from the environment" if own else words
