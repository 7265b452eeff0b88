"""The examples of a deployment as data, and what they have in common: settings that the program has to accept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from channels.registry import PROVIDERS
from dispatcher.config import load
from dispatcher.config.settings import Config
from tests.house.tree import ROOT

OPS = ROOT / "ops"


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a YAML file of ops."""
    return list(yaml.safe_load_all((OPS / name).read_text()))


def kinds() -> dict[str, dict[str, Any]]:
    """The manifests for Kubernetes by their kinds."""
    files = sorted((OPS / "kubernetes").glob("*.yaml"))
    found = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    assert len({document["kind"] for document in found}) == len(found)
    return {document["kind"]: document for document in found}


def configured(environment: Mapping[str, str], folder: Path) -> Config:
    """What the program makes of an environment with the example of a configuration."""
    told = dict(environment)
    path = folder / "dispatcher.toml"
    path.write_text((OPS / "dispatcher.toml").read_text())
    assert told.pop("DISPATCHER_CONFIG", "").endswith(f"/{path.name}")
    return load(path, told, PROVIDERS)
