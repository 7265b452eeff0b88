"""How this machine reaches packages, as its own apt and pip are configured, for the roots that are built on it."""

import ast
import os
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from tests.packages.wheels import pip

# Where a root under construction finds files of the machine; nothing of it stays.
MOUNT = "/mnt"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATES_THERE = f"{MOUNT}/certificates"
TARGETS = ("Created-By: Packages", "Origin: Debian")


class Machine:
    """The configuration of its clients; no address is known here."""

    @cached_property
    def _suites(self) -> list[tuple[str, str, str]]:
        """Address, codename and component of each of Debian's suites that apt knows."""
        if not shutil.which("apt-get"):
            return []
        told = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", *TARGETS]
        lines = subprocess.run(told, capture_output=True, text=True, check=True).stdout.splitlines()
        return sorted({(uri, release, component) for uri, release, component in (line.split() for line in lines)})

    def mirror(self, suite: str) -> list[str]:
        """Where debootstrap finds a suite: where apt does, or nothing, so that it uses its own."""
        return [uri for uri, release, _ in self._suites if release == suite][:1]

    def sources(self, suite: str) -> str:
        """Apt's sources of a suite with its corrections."""
        found = [one for one in self._suites if one[1].split("-")[0] == suite and one[2] == "main"]
        return "".join(f"deb {uri} {release} {component}\n" for uri, release, component in found)

    @cached_property
    def _pip(self) -> dict[str, str]:
        """Pip's options by their names."""
        found: dict[str, str] = {}
        for line in pip("config", "list").stdout.splitlines():
            name, _, value = line.partition("=")
            found[name.split(".", 1)[1].strip("'\"").upper().replace("-", "_")] = str(ast.literal_eval(value))
        return found

    def _folders(self) -> set[str]:
        """The folders of this machine that pip looks for packages in."""
        words = [word for value in self._pip.values() for word in value.split()]
        paths = [urlsplit(word).path if word.startswith("file://") else word for word in words]
        return {path for path in paths if path.startswith("/") and Path(path).is_dir()}

    def environment(self) -> dict[str, str]:
        """What the clients in a root are told."""
        found = {name: os.environ[name] for name in PROXIES if name in os.environ}
        for name, value in self._pip.items():
            words = [word.replace(folder, f"{MOUNT}{folder}") for word in value.split() for folder in [self._in(word)]]
            found[f"PIP_{name}"] = " ".join(words)
        if CERTIFICATES.exists():
            found |= {"PIP_CERT": CERTIFICATES_THERE, "SSL_CERT_FILE": CERTIFICATES_THERE}
        return found | {"DEBIAN_FRONTEND": "noninteractive"}

    def _in(self, word: str) -> str:
        path = urlsplit(word).path if word.startswith("file://") else word
        return path if path in self._folders() else "\0"

    def mounts(self) -> list[str]:
        """What a root has of the machine while a command runs in it: names of hosts, certificates, local packages."""
        found = ["--tmpfs", MOUNT]
        # The pages of an index lead to files beside it.
        paths = {Path(folder).parent if folder.rstrip("/").endswith("simple") else folder for folder in self._folders()}
        for path in sorted(map(str, paths)):
            found += ["--ro-bind", path, f"{MOUNT}{path}"]
        if CERTIFICATES.exists():
            found += ["--ro-bind", str(CERTIFICATES), CERTIFICATES_THERE]
        return [*found, "--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf", "--ro-bind", "/etc/hosts", "/etc/hosts"]
