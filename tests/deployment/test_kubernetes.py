"""The manifests for Kubernetes: sound by its schemas, agreed with each other, and true to the image and the program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # a tool of check-jsonschema; its types are another package
import kubernetes_validate  # type: ignore[import-untyped]  # it has types, and does not say so
import pytest

from dispatcher.base.version import VERSION
from dispatcher.config.settings import Instance
from tests.deployment.manifests import configured, kinds
from tests.image import dockerfile

KINDS = ("Deployment", "Job", "PodDisruptionBudget", "Service")
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
# What is used here of the operator's kind. Whatever is not in this list is a mistake, or belongs into it.
SERVICE_MONITOR = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "ServiceMonitor"},
        "metadata": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "labels": LABELS},
        },
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["endpoints", "selector"],
            "properties": {
                "selector": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"matchLabels": LABELS},
                },
                "endpoints": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["port"],
                        "properties": {
                            "port": {"type": "string"},
                            "path": {"type": "string", "pattern": "^/"},
                            "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                            "scrapeTimeout": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def manifests() -> dict[str, dict[str, Any]]:
    """The manifests by their kinds."""
    return kinds()


def pod(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a pod of it is made from."""
    spec: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return spec


def container(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Its only container."""
    (found,) = pod(manifest)["containers"]
    return dict(found)


def test_there_is_a_manifest_of_each_kind_and_no_other(manifests: dict[str, dict[str, Any]]) -> None:
    assert set(manifests) == {*KINDS, "ServiceMonitor"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_sound_by_the_schemas_of_kubernetes(manifests: dict[str, dict[str, Any]], kind: str) -> None:
    kubernetes_validate.validate(manifests[kind], kubernetes_validate.latest_version(), strict=True)


def test_the_operators_kind_is_sound_by_what_is_used_of_it(manifests: dict[str, dict[str, Any]]) -> None:
    jsonschema.validate(manifests["ServiceMonitor"], SERVICE_MONITOR)


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_a_pod_can_write_nothing_and_has_no_rights(manifests: dict[str, dict[str, Any]], kind: str) -> None:
    uid, gid = map(int, dockerfile.last("server", "USER").split(":"))
    rules = pod(manifests[kind])["securityContext"]
    assert (rules["runAsNonRoot"], rules["runAsUser"], rules["runAsGroup"]) == (True, uid, gid)
    own = container(manifests[kind])["securityContext"]
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(manifests[kind])["automountServiceAccountToken"] is False
    assert pod(manifests[kind])["enableServiceLinks"] is False


def test_both_run_the_same_image_of_this_version_on_the_same_database(manifests: dict[str, dict[str, Any]]) -> None:
    images = {container(manifests[kind])["image"] for kind in ("Deployment", "Job")}
    assert images == {f"dispatcher:{VERSION}"}
    assert container(manifests["Job"])["args"] == ["migrate"]
    assert container(manifests["Deployment"])["args"] == ["serve"]
    (database,) = container(manifests["Job"])["env"]
    assert database in container(manifests["Deployment"])["env"]


def test_the_program_accepts_what_it_is_told(manifests: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    told = {one["name"]: one.get("value", "postgresql://shop") for one in container(manifests["Deployment"])["env"]}
    assert configured(told, tmp_path).database.url == "postgresql://shop"


def test_a_pod_leaves_the_service_and_drains_before_it_is_killed(manifests: dict[str, dict[str, Any]]) -> None:
    (*_, program) = container(manifests["Deployment"])["lifecycle"]["preStop"]["exec"]["command"]
    leaving = float(program.partition("sleep(")[2].rstrip(")"))
    ready = container(manifests["Deployment"])["readinessProbe"]
    assert leaving >= ready["periodSeconds"] * ready["failureThreshold"]
    grace = pod(manifests["Deployment"])["terminationGracePeriodSeconds"]
    assert grace >= leaving + Instance().grace_seconds + 10


def test_probes_ask_the_pages_made_for_them(manifests: dict[str, dict[str, Any]]) -> None:
    serving = container(manifests["Deployment"])
    pages = {name: serving[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert pages == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_all_mean_the_pods_of_the_deployment(manifests: dict[str, dict[str, Any]]) -> None:
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["Job"]["spec"]["template"]["metadata"]["labels"] != labels


def test_a_drain_of_a_node_leaves_a_replica(manifests: dict[str, dict[str, Any]]) -> None:
    left = manifests["PodDisruptionBudget"]["spec"]["minAvailable"]
    assert 1 <= left < manifests["Deployment"]["spec"]["replicas"]


def test_the_metrics_of_each_replica_are_scraped(manifests: dict[str, dict[str, Any]]) -> None:
    service, monitor = manifests["Service"], manifests["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    (endpoint,) = monitor["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
    (own,) = container(manifests["Deployment"])["ports"]
    assert port["targetPort"] == own["name"]
    assert str(own["containerPort"]) == dockerfile.last("server", "EXPOSE")
