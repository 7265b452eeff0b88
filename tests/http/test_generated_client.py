"""A client that a generator makes of the document: it triggers a workflow, and reads what is kept of a person."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.openapi.document import document
from tests.support.caller import Caller
from tests.support.scene import Connection

NAME = "generated_dispatcher_client"
# Its own formatters would need a linter on the path.
CONFIG = "post_hooks: []\n"


def _inside(value: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """Every object of a document, with its path."""
    if isinstance(value, dict):
        yield path, value
        for name, inner in value.items():
            yield from _inside(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _inside(inner, f"{path}[{number}]")


def _described() -> Any:
    """The document, in JSON."""
    return msgspec.json.decode(msgspec.json.encode(document(ENDPOINTS)))


def test_the_document_is_valid() -> None:
    assert [fault.message for fault in OpenAPIV31SpecValidator(_described()).iter_errors()] == []


def test_every_array_has_items_every_body_a_schema_and_every_component_a_plain_name() -> None:
    described = _described()
    schemas = described["components"]["schemas"]
    bare = [path for path, one in _inside(described) if one.get("type") == "array" and "items" not in one]
    contents = [(path, one) for path, each in _inside(described["paths"]) for one in _contents(each)]
    assert len(contents) > len(schemas)
    assert (bare, [path for path, one in contents if not one.get("schema")]) == ([], [])
    assert [name for name in schemas if not name.isalnum()] == []


def _contents(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = value.get("content")
    if isinstance(content, dict) and all("/" in kind for kind in content):
        yield from content.values()


def _generated(folder: Path, described: bytes) -> Path:
    """The package that the generator makes of a document."""
    (source := folder / "openapi.json").write_bytes(described)
    (config := folder / "config.yaml").write_text(CONFIG)
    made = folder / "made" / NAME
    made.parent.mkdir()
    command = ("generate", "--path", source, "--output-path", made, "--meta", "none", "--config", config)
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *command], capture_output=True, text=True, check=False
    )
    # It leaves out what it does not understand, and says so.
    assert (done.returncode, "warning" in (done.stdout + done.stderr).lower()) == (0, False), done.stdout
    return made


async def test_a_generated_client_triggers_a_workflow_and_reads_an_export(
    admin: Caller, inside: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _generated(tmp_path, Caller(admin.program, None).get("/openapi.json").body)
    monkeypatch.syspath_prepend(made.parent)

    def module(name: str) -> Any:
        return importlib.import_module(f"{NAME}.{name}")

    models = module("models")
    with module("client").AuthenticatedClient(base_url=admin.program.address, token=admin.key) as client:
        # Of a person whom nobody else writes to.
        email = "generated@example.org"
        given = models.NewTrigger.from_dict({"input": {"email": email}, "idempotency_key": "of-a-generated-client"})
        run = module("api.workflows.trigger_workflow").sync("welcome", client=client, body=given)
        assert (type(run).__name__, run.workflow_name, run.duplicate) == ("Triggered", "welcome", False)
        message = {"channel": "email", "recipient": email, "template": {"subject": "Hi"}}
        admin.post("/deliveries", message | {"idempotency_key": "of-a-generated-client"})
        found = module("api.persons.export_person").sync(client=client, address=email)
        assert type(found).__name__ == "Export"
        assert found.to_dict() == admin.get(f"/persons/export?address={email}").json
        refused = module("api.persons.export_person").sync(client=client, address="")
        assert (type(refused).__name__, refused.status) == ("Document", 400)
