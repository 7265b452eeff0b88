"""The Dockerfile's stages without an engine: each becomes a root, by debootstrap and by its instructions."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.image import context, dockerfile
from tests.image.dockerfile import Stage, Step
from tests.image.machine import Machine

DEBIAN = "debian:"
# What images of Debian called slim leave out.
DOCS = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
KEPT = "copyright"
DPKG = "".join(f"path-exclude /usr/share/{name}/*\n" for name in DOCS) + "path-include /usr/share/doc/*/copyright\n"
# They also keep nothing of what apt has fetched.
APT = 'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache ""; Acquire::Languages "none";\n'
LEFTOVERS = (
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/lib/apt/lists/*",
    "var/log/*",
    "etc/resolv.conf",
    "etc/hostname",
)
# Nothing that follows says anything else.
TOLD = {"ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
RUN_SECONDS_MAX = 1_200


def lacking() -> str | None:
    """Why stages cannot be built here."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "expected: only root can lay out a root with files of several users"
    missing = [name for name in ("bwrap", "debootstrap") if not shutil.which(name)]
    return f"expected: {' and '.join(missing)} not installed" if missing else None


class Builder:
    """Builds stages below a folder; one that is there already is used again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._machine = Machine()

    def root(self, name: str) -> Path:
        """The root of a stage, or of the image that stages begin with."""
        place = self.folder / name.replace(":", "-")
        if place.exists():
            return place
        half = place.with_name(f"{place.name}.unfinished")
        shutil.rmtree(half, ignore_errors=True)
        if name.startswith(DEBIAN):
            self._debian(half, name.removeprefix(DEBIAN).removesuffix("-slim"))
        else:
            stage = dockerfile.stages()[name]
            # Where nothing runs, nothing changes a file that is there: links do.
            linked = not stage.of("RUN")
            _clone(self.root(stage.parent), half, linked=linked)
            for step in stage.steps:
                self._follow(step, stage, half, linked=linked)
        return half.rename(place)

    def as_root(self, target: str) -> list[str]:
        """Bubblewrap's arguments for a container of a target."""
        return ["--ro-bind", str(self.root(target)), "/"]

    @contextmanager
    def volume(self, target: str) -> Iterator[Path]:
        """A new volume for a target's /data, with its owner, as an engine makes one."""
        place = self.folder / "volume"
        _clone(self.root(target) / "data", place, linked=False)
        try:
            yield place
        finally:
            shutil.rmtree(place)

    def remove(self) -> None:
        """Take everything away."""
        shutil.rmtree(self.folder)

    def _debian(self, root: Path, suite: str) -> None:
        mirror = self._machine.mirror(suite)
        _must(["debootstrap", "--variant=minbase", suite, str(root), *mirror])
        if sources := self._machine.sources(suite):
            (root / "etc/apt/sources.list").write_text(sources)
        (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(DPKG)
        (root / "etc/apt/apt.conf.d/slim").write_text(APT)
        for name in DOCS:
            for path in (root / "usr/share" / name).rglob("*"):
                if not path.is_dir() and path.name != KEPT:
                    path.unlink()
        # What was corrected since the release is in the images; then apt's own traces go.
        self._run("apt-get update && apt-get upgrade --yes", "", root)
        _clear(root)

    def _follow(self, step: Step, stage: Stage, root: Path, *, linked: bool) -> None:
        match step.word:
            case "RUN":
                self._run(step.rest, stage.name, root)
                _clear(root)
            case "COPY":
                self._copy(step.rest, root, linked=linked)
            case word if word in TOLD:
                pass
            case word:
                raise NotImplementedError(f"{word} is not known here: add it, or take it out of the Dockerfile")

    def _copy(self, rest: str, root: Path, *, linked: bool) -> None:
        *sources, target = rest.split()
        if sources[0].startswith("--from="):
            other = self.root(sources.pop(0).removeprefix("--from="))
            for source in sources:
                _clone(other / source.lstrip("/"), root / target.lstrip("/"), linked=linked)
            return
        for source in sources:
            context.copy(source, root, target)

    def _run(self, line: str, stage: str, root: Path) -> None:
        environment = dockerfile.pairs(stage, "ENV") | self._machine.environment()
        told = [word for name, value in environment.items() for word in ("--setenv", name, value)]
        base = ["--bind", str(root), "/", "--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108 - its own
        command = ["bwrap", "--die-with-parent", "--unshare-pid", "--cap-add", "ALL", "--clearenv", *base]
        _must([*command, *self._machine.mounts(), *told, "--chdir", "/", "/bin/sh", "-c", line])


def _clone(source: Path, target: Path, *, linked: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    how = "--link" if linked else "--reflink=auto"
    _must(["cp", "--archive", how, "--no-target-directory", str(source), str(target)])


def _clear(root: Path) -> None:
    for pattern in LEFTOVERS:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _must(command: list[str]) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RUN_SECONDS_MAX, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)[-400:]} ended with {done.returncode}:\n{done.stdout[-4000:]}")
