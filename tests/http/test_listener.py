"""The listener's own routes: what breaks in one of them is told as everything else that breaks."""

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
