"""How long a campaign of a hundred takes that is deployed while one of a million runs."""

from bench.cases.campaigns import people
from bench.measure import BenchError, Measure, beside
from bench.process import dispatching
from bench.server import Server

DELIVERIES = people.CONTACTS
ROUNDS = 3

SECONDS_MAX = 5.0
BEGUN_SHARE = 0.05

METHOD = (
    "From the deployment of a campaign of {few} to `completed`, the slowest of {rounds}, while one of {contacts} "
    "runs in the same lane of the same channel through blackhole (one process). Less is better; limit 5 s."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Deploy the small ones one behind the other, all within one large campaign."""
    async with people.furnished(server, deliveries) as (url, connection):
        async with dispatching(url, **people.SETTINGS) as process:
            await process.started(connection)
            large = await people.deploy(connection, people.EVERYBODY)
            await people.begun(process, connection, large, int(deliveries * BEGUN_SHARE))
            seconds: list[float] = []
            for _ in range(rounds):
                small = await people.deploy(connection, people.FEW)
                # A short run's large campaign may be over first, and shows nothing then.
                if deliveries >= DELIVERIES and await people.ended(connection, large):
                    raise BenchError("the large campaign has ended first")
                seconds.append(await people.completed(process, connection, small))
            await people.completed(process, connection, large)
        await people.require_sent(connection, deliveries + rounds * people.FEW_CONTACTS)
    method = METHOD.format(few=people.FEW_CONTACTS, rounds=rounds, contacts=deliveries)
    return [beside("campaign.fair", "s", max(seconds), "limit", SECONDS_MAX, method)]
