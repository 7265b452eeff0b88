"""The size of an image: its layers as a registry keeps them, compressed, and its files as they lie on a disk."""

import os
import tarfile
import zlib
from pathlib import Path
from stat import S_ISREG
from typing import IO, cast

from tests.image import dockerfile
from tests.image.stages import Builder

# What engines use for layers by default.
LEVEL = 6


class _Gzip:
    """A file that is compressed and counted, and kept nowhere."""

    def __init__(self) -> None:
        self.bytes = 0
        self._compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)

    def write(self, data: bytes) -> int:
        """Take some."""
        self.bytes += len(self._compressor.compress(data))
        return len(data)

    def finish(self) -> int:
        """The bytes in all."""
        self.bytes += len(self._compressor.flush())
        return self.bytes


def entries(root: Path) -> dict[str, os.stat_result]:
    """Everything in a root by its path."""
    found: dict[str, os.stat_result] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found[path.removeprefix(f"{root}/")] = os.lstat(path)
    return found


def _looks(stat: os.stat_result) -> tuple[float, ...]:
    return stat.st_mode, stat.st_uid, stat.st_gid, stat.st_size, stat.st_mtime


def layer(root: Path, below: Path | None) -> int:
    """The compressed bytes of what a root has that the one below has not, or has otherwise."""
    ours, theirs = entries(root), entries(below) if below else {}
    counted = _Gzip()
    with tarfile.open(fileobj=cast("IO[bytes]", counted), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path, stat in sorted(ours.items()):
            if path not in theirs or _looks(theirs[path]) != _looks(stat):
                archive.add(root / path, path, recursive=False)
    return counted.finish()


def image(builder: Builder, target: str) -> dict[str, int]:
    """The compressed bytes of each layer of a target, by the stage that brings it."""
    lineage = dockerfile.lineage(target)
    names = [lineage[0].parent, *(stage.name for stage in lineage)]
    roots = [builder.root(name) for name in names]
    below: list[Path | None] = [None, *roots[:-1]]
    return {name: layer(root, under) for name, root, under in zip(names, roots, below, strict=True)}


def unpacked(root: Path) -> int:
    """The bytes of all files, hard links counted once."""
    files = {(stat.st_dev, stat.st_ino): stat.st_size for stat in entries(root).values() if S_ISREG(stat.st_mode)}
    return sum(files.values())
