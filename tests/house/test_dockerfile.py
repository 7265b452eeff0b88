"""The image's promises, read from the Dockerfile: no root, signals arrive, health is asked, wheels are checked."""

import json
import re
import shlex
from typing import NamedTuple

import pytest

from tests.house.tree import ROOT, project


class Step(NamedTuple):
    """One instruction, its continued lines joined."""

    word: str
    rest: str


def stages() -> list[list[Step]]:
    """The instructions of each stage; a stage begins with its FROM."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    found: list[list[Step]] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append(Step(word, " ".join(rest.split())))
    return found


def final(word: str) -> list[str]:
    """The instructions of the last stage with this word."""
    return [step.rest for step in stages()[-1] if step.word == word]


def assignments(word: str) -> dict[str, str]:
    """The pairs of the last stage's ENV or LABEL."""
    pairs = (token.partition("=") for rest in final(word) for token in shlex.split(rest))
    return {name: value for name, _, value in pairs}


def test_the_build_stage_is_not_in_the_final_image() -> None:
    assert [stage[0].rest for stage in stages()] == ["python:3.11-slim AS build", "python:3.11-slim"]
    assert not [rest for rest in final("RUN") if "pip" in rest]


def test_installed_packages_are_the_locked_ones() -> None:
    installs = [step.rest for stage in stages() for step in stage if re.search(r"\bpip3? install\b", step.rest)]
    assert installs
    assert all("--require-hashes" in rest and "requirements.lock" in rest for rest in installs)


def test_it_does_not_run_as_root() -> None:
    (user,) = final("USER")
    uid, _, gid = user.partition(":")
    assert int(uid) >= 1000
    assert int(gid) >= 1000
    last = max(index for index, step in enumerate(stages()[-1]) if step.word in {"RUN", "COPY"})
    assert [step.word for step in stages()[-1]].index("USER") > last


@pytest.mark.parametrize(("word", "argv"), [("ENTRYPOINT", ["dispatcher"]), ("CMD", ["serve", "--migrate"])])
def test_signals_reach_the_program(word: str, argv: list[str]) -> None:
    (rest,) = final(word)
    assert json.loads(rest) == argv
    assert final("STOPSIGNAL") == ["SIGTERM"]


def test_the_launcher_replaces_itself() -> None:
    launchers = [step.rest for stage in stages() for step in stage if "#!/bin/sh" in step.rest]
    assert len(launchers) == 1
    assert r"#!/bin/sh\nexec /opt/dispatcher/bin/python" in launchers[0]


def test_health_is_asked_without_a_shell_and_without_tools() -> None:
    (rest,) = final("HEALTHCHECK")
    options, _, command = rest.partition("CMD ")
    assert {"--interval", "--timeout", "--start-period"} <= {option.partition("=")[0] for option in options.split()}
    python, flag, program = json.loads(command)
    assert (python, flag) == ("python", "-c")
    compile(program, "HEALTHCHECK", "exec")
    assert "/healthz" in program


def test_only_the_volume_is_written() -> None:
    env = assignments("ENV")
    assert json.loads(final("VOLUME")[0]) == ["/data"]
    assert env["HOME"] == "/data"
    assert env["DISPATCHER_DATABASE__DATA_DIR"].startswith("/data/")
    assert env["PYTHONDONTWRITEBYTECODE"] == "1"


def test_it_listens_where_the_container_can_be_reached() -> None:
    env = assignments("ENV")
    assert env["DISPATCHER_HTTP__HOST"] == "0.0.0.0"  # noqa: S104 - a container is reached from outside or not at all
    assert final("EXPOSE") == [env["DISPATCHER_HTTP__PORT"]]


def test_the_labels_say_what_the_project_says() -> None:
    labels = assignments("LABEL")
    table = project()["project"]
    assert labels["org.opencontainers.image.title"] == table["name"]
    assert labels["org.opencontainers.image.version"] == table["version"]
    assert labels["org.opencontainers.image.licenses"] == table["license"]
    assert labels["org.opencontainers.image.description"] == table["description"]


def test_no_registry_is_named() -> None:
    assert not re.findall(r"://|\b[\w-]+\.(?:io|com|org|net|dev)/|--[\w-]*index[\w-]*|--find-links", _text())
    assert not [stage[0].rest for stage in stages() if "/" in stage[0].rest]


def test_every_source_of_a_copy_exists_and_reaches_the_build() -> None:
    copies = [step.rest.split() for stage in stages() for step in stage if step.word in {"COPY", "ADD"}]
    sources = [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources
    assert not [source for source in sources if not (ROOT / source).exists() or source not in let_in]


def _text() -> str:
    return (ROOT / "Dockerfile").read_text()
