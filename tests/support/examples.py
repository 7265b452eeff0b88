"""How many random examples a property is tried with.

By default few, which are others in each run: what one run does not meet, another one does. `./ops/test --long` tries
many. A failure prints what repeats it, and DISPATCHER_TEST_SEED repeats a whole run.
"""

import os
import secrets
from zlib import crc32

from hypothesis import settings

FEW = "few"
LONG = "long"
_SEEDS = 1_000_000

# Nobody promises how long an example takes on a busy machine. The profile that Hypothesis has for CI would try the same
# examples each time.
settings.register_profile(FEW, deadline=None, derandomize=False, print_blob=True)
settings.register_profile(LONG, settings.get_profile(FEW))


def examples(few: int, many: int) -> int:
    """Return how many examples are tried: `few`, or `many` with `--hypothesis-profile=long`."""
    return many if settings.get_current_profile_name() == LONG else few


def new_seed() -> int:
    """Return another seed each time, printed for the report of a failure."""
    seed = int(os.environ.get("DISPATCHER_TEST_SEED", secrets.randbelow(_SEEDS)))
    print(f"seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    return seed


def is_chosen(name: str, one_of: int) -> bool:
    """Whether a case is among those of this run: each is in one of so many. All are with the long profile, and where
    somebody asks for some tests in one process.

    All workers of a run choose the same.
    """
    run = os.environ.get("DISPATCHER_TEST_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None or settings.get_current_profile_name() == LONG:
        return True
    return (crc32(name.encode()) + crc32(run.encode())) % one_of == 0
