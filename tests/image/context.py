"""What a build is given of the checkout: the sources of COPY, as .dockerignore lets them in."""

import shutil
from pathlib import Path

from tests.house.tree import ROOT


def _left_out() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line.removeprefix("**/") for line in lines if line.startswith("**/")]


def copy(source: str, root: Path, target: str, *, compiled: bool = False) -> None:
    """COPY a file or the content of a folder of the checkout to a place in a root; on demand with what Python made."""
    place = root / target.lstrip("/")
    if (ROOT / source).is_dir():
        ignored = shutil.ignore_patterns(*([] if compiled else _left_out()))
        shutil.copytree(ROOT / source, place, ignore=ignored, dirs_exist_ok=True)
        return
    place = place / Path(source).name if target.endswith("/") else place
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / source, place)
