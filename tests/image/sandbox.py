"""The program as a container has it, under bubblewrap: the image's user, root read-only, alone with its processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.image import dockerfile

BWRAP = ("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--clearenv")
ENDED_SECONDS_MAX = 60


@cache
def lacking() -> str | None:
    """Why nothing can be run under bubblewrap here."""
    if sys.platform != "linux" or not shutil.which("bwrap"):
        return "expected: bubblewrap is not installed"
    tried = [*BWRAP, *as_user("10001:10001")[0], "--ro-bind", "/", "/", "true"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"expected: bubblewrap may not work here: {done.stderr.strip()}"


def as_user(user: str) -> tuple[list[str], list[str]]:
    """Arguments of bubblewrap, and the command to put first, for running as a user and group."""
    uid, _, gid = user.partition(":")
    if os.geteuid() != 0:
        return ["--unshare-user", "--uid", uid, "--gid", gid], []
    given = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return given, ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--"]


class Container:
    """Runs what a stage of the Dockerfile says on a root file system."""

    def __init__(self, stage: str, root: list[str], **environment: str) -> None:
        self.stage = stage
        self.root = root
        self.environment = dockerfile.pairs(stage, "ENV") | environment
        self.process: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def _command(self, arguments: list[str], environment: Mapping[str, str]) -> list[str]:
        mapped, first = as_user(dockerfile.last(self.stage, "USER"))
        told = [word for name, value in environment.items() for word in ("--setenv", name, value)]
        base = ["--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108 - the container's own
        place = ["--chdir", dockerfile.last(self.stage, "WORKDIR"), "--remount-ro", "/"]
        return [*BWRAP, *mapped, *self.root, *base, *place, *told, "--as-pid-1", *first, *arguments]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in a container of its own, to its end."""
        command = self._command(list(arguments), self.environment)
        return subprocess.run(command, capture_output=True, text=True, timeout=ENDED_SECONDS_MAX, check=False)

    def dispatcher(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the image with arguments, as `docker run` does."""
        return self.run(*dockerfile.argv(self.stage, "ENTRYPOINT"), *arguments)

    def healthy(self) -> bool:
        """Ask for its health, as an engine does."""
        return self.run(*dockerfile.health(self.stage)).returncode == 0

    def start(self, log: Path, *arguments: str) -> None:
        """Start the image, as it stands or with arguments."""
        told = list(arguments) or dockerfile.argv(self.stage, "CMD")
        command = self._command([*dockerfile.argv(self.stage, "ENTRYPOINT"), *told], self.environment)
        reading, writing = os.pipe()
        command[1:1] = ["--info-fd", str(writing)]
        with log.open("wb") as file, open(reading, "rb") as said:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, pass_fds=[writing])
            os.close(writing)
            self.pid = json.loads(said.read())["child-pid"]

    def stop(self, number: int) -> int:
        """Send a signal to the program, its first process; its exit code."""
        assert self.process is not None
        os.kill(self.pid, number)
        return self.process.wait(ENDED_SECONDS_MAX)

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
