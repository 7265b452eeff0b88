"""What tests of the command line share: the program that a module has, and the two doors to it."""

import pytest

from tests.support.far import Door, Far
from tests.support.program import Program


@pytest.fixture(scope="module")
def far(serving: Program) -> Far:
    """The shared program's server, with a key of an administrator."""
    return Far(serving)


@pytest.fixture(params=["database", "server"])
def door(request: pytest.FixtureRequest, serving: Program, far: Far) -> Door:
    """Each of the two doors."""
    return serving if request.param == "database" else far
