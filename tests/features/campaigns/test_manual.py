"""The example of the manual's page runs as it stands there."""

import json
import re
import shlex
from pathlib import Path

from tests.support.forks import ROOT
from tests.support.program import Program

PAGE = (ROOT / "dispatcher/features/campaigns/README.md").read_text()
_block = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {"people.csv": "csv", "spring.liquid": "liquid", "spring.json": "json"}


async def test_the_example_runs(program: Program, tmp_path: Path) -> None:
    blocks = dict(reversed([(kind, text) for kind, text in _block.findall(PAGE)]))
    for name, kind in FILES.items():
        (tmp_path / name).write_text(blocks[kind])
    await program.start()
    run, said = "", dict[str, str]()
    for line in blocks["sh"].splitlines():
        command = re.sub(r"^RUN=\$\(|\| jq \.run_id\)$", "", line)
        words = [str(tmp_path / word) if word in FILES else word for word in shlex.split(command.replace("$RUN", run))]
        assert words[0] == "./ops/run"
        done = program.run(*words[1:])
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        said[words[2]] = done.stdout.decode()
        if line.startswith("RUN="):
            run = str(json.loads(done.stdout)["run_id"])
    assert "20 % for you, Ann Lee" in said["plan"]
    assert "1 skipped: no address" in said["plan"]
    assert f"campaign run {run} of spring: completed; 2 of 3 sent, 1 skipped" in said["watch"]
    assert "no address" in said["trace"]
    assert said["check"].count("ok ") == 3
