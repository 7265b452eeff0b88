"""Every page by plain HTTP: for each role, and in a workspace in which there is nothing yet."""

import pytest

from dispatcher.console.page import discovered
from dispatcher.http.roles import Role, may
from tests.console.browsing import Browsing
from tests.console.furniture import Furnished
from tests.support.caller import make_key
from tests.support.program import Program

PAGES = [page for page in discovered() if not page.raw]
# Only operators open them, whose workspace is another one.
OPERATORS = {"/configuration", "/cells"}
ROLES = [role for role in Role if role is not Role.WORKER_SERVICE]
# What its visitors have to know to open it.
PROBLEMS = {400, 404, 409}


def _visitor(program: Program, **key: str) -> Browsing:
    found = Browsing(program)
    assert found.sign_in(make_key(program, **key)) == 303
    return found


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_opens_the_pages_and_forms_of_its_rights_and_no_other(
    serving: Program, furnished: Furnished, role: Role
) -> None:
    visitor = _visitor(serving, role=role.value)
    wrong = {}
    for page in PAGES:
        status, text = visitor.ask("GET", "/console" + furnished.path(page.path).rstrip("/"))
        allowed = page.right is None or may(role, page.right)
        # A form also takes what it shows: its own problem is no page of somebody else's.
        if ((status == 403) is allowed and not (allowed and page.act is not None)) or status >= 500:
            wrong[page.path] = status, text[-500:]
    assert wrong == {}


async def test_where_nothing_is_yet_every_page_opens_or_says_that_there_is_none(serving: Program) -> None:
    visitor = _visitor(serving, tenant="nothing-yet")
    names = Furnished(dict.fromkeys(_names(), "1"), {})
    wrong = {}
    for page in PAGES:
        status, text = visitor.ask("GET", "/console" + names.path(page.path).rstrip("/"))
        if status != 200 and page.path not in OPERATORS and (status not in PROBLEMS or "{" not in page.path):
            wrong[page.path] = status, text[-500:]
    assert wrong == {}


def _names() -> set[str]:
    return {part[1:-1] for page in PAGES for part in page.path.split("/") if part.startswith("{")}
