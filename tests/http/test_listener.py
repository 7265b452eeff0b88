"""The listener's own routes: a page with links; a route that breaks is in the log, as everything that breaks."""

import re

import pytest
from litestar import get
from litestar.testing import TestClient
from structlog.testing import capture_logs

from dispatcher.base.health import Health
from dispatcher.base.series import Registry
from dispatcher.http.server.listener import application


def _breaks() -> None:
    raise RuntimeError("the secret is hunter2")


def test_a_route_that_breaks_is_in_the_log_under_the_id_of_its_request() -> None:
    app = application(Health(lambda: 0.0, 0.0, dict, 0), Registry(), _breaks)
    with TestClient(app, raise_server_exceptions=False) as client, capture_logs() as logged:
        answer = client.get("/metrics", headers={"x-request-id": "trace-17"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert (answer.headers["x-request-id"], answer.json()["request_id"]) == ("trace-17", "trace-17")
    assert "hunter2" not in answer.text
    (line,) = logged
    assert (line["event"], line["request_id"], line["path"]) == ("http.failed", "trace-17", "/metrics")


@pytest.mark.parametrize("has_console", [False, True])
def test_the_front_page_links_to_what_is_served_and_fetches_nothing(has_console: bool) -> None:
    @get("/console", sync_to_thread=False)
    def console() -> str:
        return "here"

    health = Health(lambda: 0.0, 0.0, dict, 0)
    health.staging = "only <chosen> recipients"
    app = application(health, Registry(), lambda: None, [console] if has_console else [])
    with TestClient(app) as client:
        answer = client.get("/")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        links = re.findall(r'href="(.*?)"', answer.text)
        assert links == ["console"] * has_console + ["readyz", "healthz", "metrics"]
        assert all(client.get(f"/{link}").status_code in (200, 503) for link in links)
    assert "only &lt;chosen&gt; recipients" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script|<link|<img|src=|https?://", answer.text)
