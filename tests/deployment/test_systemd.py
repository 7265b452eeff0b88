"""The unit: systemd understands every line, protects the machine from the program, and gives it time to drain."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.config.settings import Instance
from tests.deployment.manifests import OPS, configured

UNIT = OPS / "systemd" / "dispatcher.service"
PROGRAM = "/opt/dispatcher/bin/dispatcher"
# systemd's own figure, times ten: 0 is nothing left to take away, 96 a service without any restriction.
EXPOSURE_MAX = 20


def values(key: str) -> list[str]:
    """What the unit says under a key."""
    pairs = (line.partition("=") for line in UNIT.read_text().splitlines() if not line.startswith("#"))
    return [value for name, _, value in pairs if name == key]


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Ask systemd."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("expected: systemd is not installed")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    # It looks whether the program is there, too: another one stands for it.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
    found = analyze("verify", "--man=no", str(unit))
    assert not [line for line in found.stderr.splitlines() if UNIT.name in line]
    assert found.returncode == 0, found.stderr


def test_systemd_calls_it_well_protected() -> None:
    found = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(UNIT))
    assert found.returncode == 0, found.stdout.splitlines()[-1:]
    assert (values("DynamicUser"), values("ProtectSystem")) == (["yes"], ["strict"])


def test_it_has_time_to_drain_and_is_reloaded_by_its_signal() -> None:
    assert float(values("TimeoutStopSec")[0]) >= Instance().grace_seconds + 10
    assert values("KillMode") == ["mixed"]
    assert values("ExecReload") == ["/bin/kill -HUP $MAINPID"]
    assert values("ExecStart") == [f"{PROGRAM} serve --migrate"]


def test_the_program_accepts_what_it_is_told(tmp_path: Path) -> None:
    secret = tmp_path / "database_url"
    secret.write_text("postgresql://dispatcher:secret@localhost/shop\n")
    (credential,) = values("LoadCredential")
    assert credential.split(":")[0] == secret.name
    told = dict(line.replace("%d", str(tmp_path)).split("=", 1) for line in values("Environment"))
    assert configured(told, tmp_path).database.url == secret.read_text().strip()
