"""The model and the real Postgres, side by side through schedules that nobody would think of.

`python -m tests.engine.model` looks through more of them, and repeats those of a seed.
"""

import asyncio
import os

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.model.machine import Machine
from tests.engine.model.world import World
from tests.support.examples import examples, new_seed

EXAMPLES = int(os.environ.get("DISPATCHER_MODEL_EXAMPLES", str(examples(30, 200))))
SEED = os.environ.get("DISPATCHER_MODEL_SEED")
STEPS_MAX = int(os.environ.get("DISPATCHER_MODEL_STEPS", "50"))

PROFILE = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS_MAX,
    database=None,
    deadline=None,
    print_blob=False,
    # The shortest schedule is explanation enough; one fault at a time.
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def explore(url: str) -> None:
    """Run the machine on a database; it has an event loop of its own, and so a thread."""
    Machine.world = World(url)
    try:
        run_state_machine_as_test(seed(int(SEED or new_seed()))(Machine), settings=PROFILE)
    finally:
        Machine.world.close()


async def test_the_model_and_postgres_agree_after_every_step(url: str) -> None:
    await asyncio.to_thread(explore, url)
