"""The example for compose: sound by its schema, and true to the program and to the files beside it."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dispatcher.config.settings import Instance
from tests.deployment.manifests import OPS, configured, documents
from tests.image import dockerfile

SERVING = ("dispatcher-1", "dispatcher-2")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services by their names."""
    (document,) = documents("compose.yaml")
    services: dict[str, Any] = document["services"]
    return services


def filled(text: str) -> str:
    """A value whose variables are set."""
    return re.sub(r"\$\{\w+:\?[^}]*\}", "secret", text)


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """What a dispatcher of it is told."""
    target = service["build"]["target"]
    own = {name: filled(value) for name, value in service["environment"].items()}
    return {name: value for name, value in (dockerfile.pairs(target, "ENV") | own).items() if "DISPATCHER" in name}


def test_it_is_sound_by_the_schema_of_compose_files() -> None:
    tool = Path(sys.executable).parent / "check-jsonschema"
    told = [str(tool), "--builtin-schema", "vendor.compose-spec", str(OPS / "compose.yaml")]
    found = subprocess.run(told, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("name", ["migrate", *SERVING])
def test_the_program_accepts_what_it_is_told(services: dict[str, Any], name: str, tmp_path: Path) -> None:
    config = configured(environment(services[name]), tmp_path)
    assert config.database.url == "postgresql://dispatcher:secret@postgres:5432/dispatcher"
    assert (config.http.host, config.http.port) == ("0.0.0.0", 8085)  # noqa: S104 - others reach it from outside


@pytest.mark.parametrize("name", ["migrate", *SERVING])
def test_a_dispatcher_can_write_nothing_and_has_no_rights(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["build"]["target"] in dockerfile.stages()


@pytest.mark.parametrize("name", SERVING)
def test_a_dispatcher_starts_on_a_schema_and_has_time_to_drain(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["command"] == ["serve"]
    assert service["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert services["migrate"]["command"] == ["migrate"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert int(service["stop_grace_period"].removesuffix("s")) >= Instance().grace_seconds + 10


def test_what_is_mounted_exists_and_what_is_kept_is_declared(services: dict[str, Any]) -> None:
    (document,) = documents("compose.yaml")
    mounts = [mount.split(":") for service in services.values() for mount in service.get("volumes", ())]
    ours = [source for source, *_ in mounts if source.startswith("./")]
    assert ours
    assert not [source for source in ours if not (OPS / source).exists()]
    assert {source for source, *_ in mounts if not source.startswith(".")} == set(document["volumes"])
    assert all(mount[-1] == "ro" for mount in mounts if mount[0].startswith("./"))


def test_nothing_is_reached_from_other_machines(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) == len(set(ports)) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_both_dispatchers_are_scraped(services: dict[str, Any]) -> None:
    (document,) = documents("prometheus/prometheus.yml")
    jobs = {job["job_name"]: job["static_configs"] for job in document["scrape_configs"]}
    assert [target for one in jobs["dispatcher"] for target in one["targets"]] == [f"{name}:8085" for name in SERVING]
    assert set(SERVING) < set(services)
    (sources,) = documents("grafana/provisioning/datasources/prometheus.yml")
    assert [source["url"] for source in sources["datasources"]] == ["http://prometheus:9090"]
    assert "prometheus" in services
