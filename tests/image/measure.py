"""`python -m tests.image.measure [FOLDER]`: build both targets without an engine; print sizes and cold starts.

As root, with debootstrap and bubblewrap. It needs some minutes, a package index and Debian's packages. The folder keeps
what was built (2 GB); delete it to build again.
"""

import asyncio
import resource
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from dispatcher.db import embedded
from tests.image import running, sandbox, sizes, stages
from tests.image.sandbox import Container
from tests.support.databases import new_database
from tests.support.folders import folder

MEGABYTE = 1e6
STARTS = 5


class Start(NamedTuple):
    """A start of a container."""

    # From the start to the answer that it is ready.
    seconds: float
    # From the start to its end, directly behind it: what it takes on a machine that has more to do.
    cpu_seconds: float


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def cold_starts(root: list[str]) -> list[Start]:
    """Start containers of the server one after another; the first one migrates."""
    found: list[Start] = []
    with folder("image") as place:
        server = embedded.start(str(place / "data"))
        async with new_database(server.get_uri(), "template0") as url, running.over_tcp(url) as proxy:
            port = running.free_port()
            told = {"DISPATCHER_DATABASE_URL": running.url_of(url, proxy), "DISPATCHER_HTTP__PORT": str(port)}
            container = Container("server", root, **told)
            try:
                for _ in range(STARTS):
                    before = _cpu_seconds()
                    seconds = await running.ready(container, port, place / "log")
                    container.stop(signal.SIGTERM)
                    found.append(Start(seconds, _cpu_seconds() - before))
            finally:
                container.end()
        server.cleanup()
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Build, measure and print."""
    if (reason := stages.lacking() or sandbox.lacking()) is not None:
        raise SystemExit(reason.removeprefix("expected: "))
    place = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="dispatcher-image-"))
    builder = stages.Builder(place)
    for target in ("server", "embedded"):
        layers = sizes.image(builder, target)
        parts = ", ".join(f"{name} {count / MEGABYTE:.1f}" for name, count in layers.items())
        whole = sizes.unpacked(builder.root(target)) / MEGABYTE
        _say(f"image.{target} {sum(layers.values()) / MEGABYTE:.1f} MB ({parts}), unpacked {whole:.1f} MB")
    for number, start in enumerate(asyncio.run(cold_starts(builder.as_root("server")))):
        what = "migrates and serves" if number == 0 else "serves"
        _say(f"image.start {start.seconds:.2f} s to ready, {start.cpu_seconds:.2f} s of CPU ({what})")
    _say(f"roots in {place}")


if __name__ == "__main__":
    main()
