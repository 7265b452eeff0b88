"""The wheel of the program: it has every file that the program reads, and works in an environment of its own."""

import json
import os
import shutil
import signal
import subprocess
import sysconfig
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from dispatcher.base.version import VERSION
from tests.house.test_locks import RUN, pins
from tests.house.tree import ROOT, ours
from tests.packages import wheels

PACKAGES = ("bench", "channels", "dispatcher")
READY_SECONDS_MAX = 60


def data_files(names: list[Path]) -> set[str]:
    """What is no code of the packages. The manual is for those who read the checkout."""
    return {str(name) for name in names if name.parts[0] in PACKAGES and name.suffix not in {".py", ".md"}}


def test_it_has_every_file_of_the_tree_and_no_other(server_wheel: Path) -> None:
    with ZipFile(server_wheel) as archive:
        inside = [Path(name) for name in archive.namelist()]
    assert data_files(inside) == data_files([*ours(), *wheels.PROBES])
    code = {str(path) for path in ours() if path.parts[0] in PACKAGES and path.suffix == ".py"}
    assert {str(path) for path in inside if path.suffix == ".py"} == code


def test_it_says_what_it_is(server_wheel: Path) -> None:
    with ZipFile(server_wheel) as archive:
        info = f"dispatcher-{VERSION}.dist-info"
        said = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        licence = archive.read(f"{info}/licenses/LICENSE").decode()
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("dispatcher", VERSION, "MIT")
    assert licence == (ROOT / "LICENSE").read_text()


def demonstrated(bin_folder: Path, place: Path, **environment: str) -> None:
    """Run the demonstration from an environment, from a folder where nothing is to be found."""
    place.mkdir()
    told = {"PATH": os.defpath, "HOME": str(place), "DISPATCHER_DATABASE__DATA_DIR": str(place / "data"), **environment}
    dispatcher = str(bin_folder / "dispatcher")
    serving = subprocess.Popen(
        [dispatcher, "demo", "--serve", "--json"], cwd=place, env=told, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert serving.stdout is not None
        shown = json.loads(serving.stdout.readline() or b"{}")
        assert {row["status"] for row in shown["deliveries"]} >= {"sent"}
        assert shown["run"]["status"] == "completed"
        again = subprocess.run([dispatcher, "demo"], cwd=place, env=told, capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(READY_SECONDS_MAX) == 0
    finally:
        serving.kill()
        serving.communicate()


async def test_the_demonstration_runs_from_the_wheel(server_wheel: Path, tmp_path: Path, empty_url: str) -> None:
    bin_folder = wheels.environment(tmp_path / "fresh", "--no-deps", "--no-index", str(server_wheel))
    # Its dependencies are those of the tests, of which the lock has the same versions; the checkout is not among them.
    (wheels.site_of(tmp_path / "fresh") / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    demonstrated(bin_folder, tmp_path / "place", DISPATCHER_DATABASE_URL=empty_url)


@pytest.mark.long
def test_the_demonstration_runs_where_only_the_package_index_is(server_wheel: Path, tmp_path: Path) -> None:
    constraints = tmp_path / "constraints"
    constraints.write_text("".join(f"{name}=={version}\n" for name, (version,) in pins(RUN).items()))
    wheel = f"dispatcher[embedded] @ {server_wheel.as_uri()}"
    bin_folder = wheels.environment(tmp_path / "fresh", "--constraint", str(constraints), wheel)
    demonstrated(bin_folder, tmp_path / "place")
    shutil.rmtree(tmp_path / "fresh")
