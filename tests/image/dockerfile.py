"""The Dockerfile as it is read: its stages, each with its instructions, and what a container of a stage is told."""

import json
import shlex
from typing import NamedTuple

from tests.house.tree import ROOT

# What a container has where no stage says otherwise.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Step(NamedTuple):
    """One instruction, its continued lines joined."""

    word: str
    rest: str


class Stage(NamedTuple):
    """The instructions from one FROM to the next."""

    name: str
    parent: str
    steps: tuple[Step, ...]

    def of(self, word: str) -> list[str]:
        """What the instructions with this word say."""
        return [step.rest for step in self.steps if step.word == word]


def text() -> str:
    """The file."""
    return (ROOT / "Dockerfile").read_text()


def steps() -> list[Step]:
    """Every instruction."""
    lines = [line for line in text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [Step(*line.strip().split(" ", 1)) for line in joined if line.strip()]


def stages() -> dict[str, Stage]:
    """The stages by their names, in their order."""
    found: dict[str, Stage] = {}
    for step in steps():
        if step.word == "FROM":
            parent, _, name = step.rest.split()
            found[name] = Stage(name, parent, ())
        else:
            last = found.popitem()[1]
            found[last.name] = last._replace(steps=(*last.steps, step))
    return found


def lineage(name: str) -> list[Stage]:
    """A stage and those that it is made from, the oldest first."""
    known = stages()
    found: list[Stage] = []
    while name in known:
        found.insert(0, known[name])
        name = known[name].parent
    return found


def last(name: str, word: str) -> str:
    """What holds in a stage of an instruction that replaces the one before."""
    return [rest for stage in lineage(name) for rest in stage.of(word)][-1]


def pairs(name: str, word: str) -> dict[str, str]:
    """The pairs of a stage's ENV or LABEL, those that it is made from included."""
    found: dict[str, str] = {"PATH": PATH} if word == "ENV" else {}
    for stage in lineage(name):
        for token in (token for rest in stage.of(word) for token in shlex.split(rest)):
            key, _, value = token.partition("=")
            found[key] = value.replace("$PATH", found.get("PATH", ""))
    return found


def argv(name: str, word: str) -> list[str]:
    """An ENTRYPOINT or a CMD."""
    found: list[str] = json.loads(last(name, word))
    return found


def health(name: str) -> list[str]:
    """The command that asks a container for its health."""
    found: list[str] = json.loads(last(name, "HEALTHCHECK").partition("CMD ")[2])
    return found
