"""The scripts in ops make their virtualenvs from a Python that stays."""

import os
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT


def test_a_virtualenv_is_made_again_while_it_is_active(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    script = f'root="{ROOT}"; source "$root/ops/_venv"; venv_python'
    active = {**os.environ, "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}"}
    made_from = subprocess.check_output(["bash", "-c", script], env=active, text=True).strip()
    assert Path(made_from).is_file()
    assert not Path(made_from).is_relative_to(tmp_path)
