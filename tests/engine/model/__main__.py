"""The long run: `python -m tests.engine.model --examples N --seed S` looks for schedules on which the sides differ."""

import argparse
import os
import secrets
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def main() -> int:
    """Run the machine as a test, since tests have the server; answers its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.model", description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000, help="schedules to try")
    parser.add_argument("--steps", type=int, default=50, help="steps of a schedule at most")
    seed = secrets.randbelow(1_000_000)
    parser.add_argument("--seed", type=int, default=seed, help="the same seed, the same schedules")
    asked = parser.parse_args()
    sys.stdout.write(f"{asked.examples} schedules of {asked.steps} steps, seed {asked.seed}\n")
    sys.stdout.flush()
    environment = {
        "DISPATCHER_MODEL_EXAMPLES": str(asked.examples),
        "DISPATCHER_MODEL_STEPS": str(asked.steps),
        "DISPATCHER_MODEL_SEED": str(asked.seed),
    }
    command = [sys.executable, "-m", "pytest", "-q", "tests/engine/model/test_machine.py"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
