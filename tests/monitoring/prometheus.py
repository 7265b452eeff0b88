"""A real Prometheus that scrapes one address twice a second, on a free port of 127.0.0.1."""

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests.monitoring.reading import PROMETHEUS
from tests.support.waits import until

BINARY = shutil.which("prometheus")
# Its log, and where it keeps what it scraped.
LOG = "prometheus.log"
DATA = "data"


def why_not() -> str:
    """Why there is none on this machine; empty where there is."""
    return "" if BINARY else "prometheus is missing: install Debian's package prometheus"


class QueryError(Exception):
    """A query that Prometheus refuses, in its words."""


class Prometheus:
    """A server of its own, with our rules. It ends with its context."""

    def __init__(self, folder: Path, scraped: str) -> None:
        assert BINARY is not None
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        settings = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
            "rule_files": [str(PROMETHEUS / "alerts.yml")],
            "scrape_configs": [
                {"job_name": "dispatcher", "static_configs": [{"targets": [urlsplit(scraped).netloc]}]},
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        self._command = [
            BINARY,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / DATA}",
            f"--web.listen-address={self._address}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        with (self._folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(self._command, stderr=log, stdout=log)  # noqa: ASYNC220 - it blocks for a moment
        try:
            await until(self._is_ready, f"Prometheus is ready: {self._folder / LOG}")
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / LOG).read_text()
        try:
            return self._get("/-/ready", {})[0] == 200
        except OSError:
            return False

    def _get(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        url = f"http://{self._address}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def _ask(self, path: str, **query: str) -> Any:
        status, body = self._get(f"/api/v1/{path}", query)
        answer = json.loads(body)
        if status != 200 or answer["status"] != "success":
            raise QueryError(f"{query}: {answer.get('error')}")
        return answer["data"]

    def query(self, expression: str) -> list[float]:
        """The values that an expression has now, those left out that are not numbers. Raises QueryError."""
        found = self._ask("query", query=expression)["result"]
        return [float(one["value"][1]) for one in found if one["value"][1] != "NaN"]

    def labels(self, metric: str, label: str) -> list[str]:
        """The values of a label of a metric, as a dashboard's variable asks for them."""
        return list(self._ask(f"label/{label}/values", **{"match[]": metric}))

    def unhealthy_rules(self) -> dict[str, str]:
        """The rules that could not be evaluated, with the reason."""
        rules = [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")}
