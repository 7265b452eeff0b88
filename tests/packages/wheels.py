"""The wheels of this checkout, built as an installation builds them, and environments that hold nothing else."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from shutil import copy2

import pytest
from packaging.requirements import Requirement

from tests.house.tree import ROOT, ours

BUILD_SECONDS_MAX = 120
# What an installation from a checkout reads.
SOURCES = ("LICENSE", "README.md", "bench", "channels", "dispatcher", "ops", "pyproject.toml")
# Files of a kind that no package may have yet, so that the first one of the kind is not forgotten.
PROBES = tuple(Path("dispatcher", "probe", "inner", f"page.{suffix}") for suffix in ("css", "html", "js", "svg"))


def copied(into: Path) -> Path:
    """A copy of the sources, since a build writes into them, with the probes in it."""
    for path in ours():
        if path.parts[0] in SOURCES:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / path, into / path, follow_symlinks=False)
    for probe in PROBES:
        (into / probe).parent.mkdir(parents=True, exist_ok=True)
        (into / probe).write_text("")
    return into


def pip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pip: that of this environment or, where it was made without one, that of the Python beneath."""
    base = str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))
    for python in (sys.executable, base):
        command = [python, "-m", "pip", "--disable-pip-version-check"]
        if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0:
            told = [*command, *arguments]
            return subprocess.run(told, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False)
    pytest.skip("neither this environment nor the Python beneath it has pip")


def backend(into: Path) -> Path:
    """The build backend that pyproject.toml asks for, in a folder of its own; skips without a package index."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    done = pip("install", "--quiet", "--target", str(into), *wanted)
    if done.returncode:
        pytest.skip(f"the build backend cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    return into


def build(project: Path, backend: Path, into: Path) -> Path:
    """Build the wheel of a project."""
    into.mkdir(parents=True, exist_ok=True)
    program = f"from setuptools import build_meta; build_meta.build_wheel({str(into)!r})"
    environment = os.environ | {"PYTHONPATH": str(backend)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.glob("*.whl")
    return wheel


def environment(folder: Path, *installed: str) -> Path:
    """A fresh environment with what pip is told to install; its bin folder."""
    venv.create(folder, symlinks=True, with_pip=False)
    done = pip("--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-compile", *installed)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def required(*requirements: str) -> Iterator[metadata.Distribution]:
    """The installed distributions that these requirements lead to, as an installation would find them."""
    waiting = [Requirement(line) for line in requirements]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        distribution = metadata.distribution(requirement.name)
        if distribution.name not in seen:
            seen.add(distribution.name)
            yield distribution
            further = [Requirement(line) for line in distribution.requires or ()]
            waiting += [one for one in further if one.marker is None or one.marker.evaluate({"extra": ""})]


def site_of(folder: Path) -> Path:
    """The folder of an environment's packages."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))


def lend(folder: Path, *requirements: str) -> None:
    """Put distributions of the environment of the tests into another one, without a package index."""
    for distribution in required(*requirements):
        for top in {Path(path).parts[0] for path in distribution.files or () if ".." not in Path(path).parts}:
            link = site_of(folder) / top
            if top != "__pycache__" and not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
