"""The demonstration's link to the console signs in once, and only where nobody else can reach it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatcher.console.sign_in import SignIn
from dispatcher.db.database import Database
from dispatcher.http.server.admission import Admission
from dispatcher.process.demo.console_link import console_link

REQUEST = cast("Any", SimpleNamespace(headers={}))


async def test_a_link_works_once_at_each_start(database: Database) -> None:
    sign_in = SignIn(cast("Admission", None))
    for _ in range(2):
        link = await console_link(database, sign_in, "http://127.0.0.1:8085")
        path, _, word = link.rpartition("/")
        assert path == "http://127.0.0.1:8085/console/enter"
        assert sign_in.by_link(REQUEST, word).cookies
        assert not sign_in.by_link(REQUEST, word).cookies
    assert await database.value("SELECT count(*) FROM dispatcher.api_keys WHERE revoked_at IS NULL") == 1


@pytest.mark.parametrize(("address", "link"), [("http://10.0.0.7:80", "http://10.0.0.7:80/console"), ("", "")])
async def test_a_link_that_others_could_use_is_not_made(database: Database, address: str, link: str) -> None:
    assert await console_link(database, SignIn(cast("Admission", None)), address) == link
