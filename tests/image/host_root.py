"""A root of this machine's own /usr and the tests' environment, with the program as the Dockerfile lays it out."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.image import context, dockerfile

PROGRAM = "/opt/dispatcher"
# The distribution's links into /usr, and what its programs look for.
LINKS = ("bin", "sbin", "lib", "lib64")
SETTINGS = ("ld.so.cache", "alternatives", "ssl", "localtime")
SITE = Path(f"{PROGRAM}/lib/python3.11/site-packages")


def make(folder: Path, stage: str) -> list[str]:
    """Lay it out in a folder, and return bubblewrap's arguments for it."""
    program = folder / "opt" / "dispatcher"
    venv.create(program, symlinks=True, with_pip=False)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(program)}))
    if own.parent.name != SITE.parent.name:
        (program / "lib" / SITE.parent.name).symlink_to(own.parent.name)
    # The locked packages, of the same versions; the checkout, which they lead to as well, is not in this root.
    lent = Path(sysconfig.get_path("purelib"))
    (own / "lent.pth").write_text(f"{lent}\n")
    for step in (step for built in dockerfile.lineage("build") for step in built.steps):
        if step.word == "COPY" and PROGRAM in step.rest:
            source, target = step.rest.split()
            context.copy(source, folder, target, compiled=True)
        elif step.word == "RUN" and "bin/dispatcher" in step.rest:
            _launcher(folder, step.rest)
    (folder / "passwd").write_text(f"dispatcher:x:{dockerfile.last(stage, 'USER')}::/data:/usr/sbin/nologin\n")
    return [*_system(), *_bound(Path(sys.base_prefix)), *_bound(lent), *_own(folder)]


def _launcher(folder: Path, run: str) -> None:
    """Write it with the words of the Dockerfile."""
    words = " && ".join(part for part in run.split("&&") if "bin/dispatcher" in part and "compileall" not in part)
    for before in ("> ", " 0755 "):
        words = words.replace(f"{before}{PROGRAM}", f"{before}{folder}{PROGRAM}")
    subprocess.run(["/bin/sh", "-c", words], check=True)


def _system() -> list[str]:
    found = ["--ro-bind", "/usr", "/usr"]
    for name in LINKS:
        path = Path("/", name)
        if path.is_symlink():
            found += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            found += ["--ro-bind", str(path), str(path)]
    found += _folder(Path("/etc"))
    return found + [word for name in SETTINGS for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")]


def _bound(path: Path) -> list[str]:
    if path.is_relative_to("/usr"):
        return []
    parents = [word for parent in reversed(path.parents[:-1]) for word in _folder(parent)]
    return [*parents, "--ro-bind", str(path), str(path)]


def _folder(path: Path) -> list[str]:
    # Those that bubblewrap makes by itself can be entered by root alone.
    return ["--perms", "0755", "--dir", str(path)]


def _own(folder: Path) -> list[str]:
    passwd = ["--ro-bind", str(folder / "passwd"), "/etc/passwd"]
    return [*passwd, "--ro-bind", str(folder / "opt"), "/opt", *_folder(Path("/data"))]


def remove(folder: Path) -> None:
    """Take it away: a copy of the program for each test would add up."""
    shutil.rmtree(folder, ignore_errors=True)
