"""The feed: writes the messages of a trial, half for each class, over all lanes, in batches."""

from functools import partial

from dispatcher.db.database import Database
from dispatcher.selftest.plan import CLASSES, LANES

BATCH_MAX = 1_000

_WRITE = """
INSERT INTO dispatcher.deliveries
       (idempotency_key, channel, lane, recipient, template, variables, max_attempts)
SELECT format('%s-%s', channels[1 + number % 2], number), channels[1 + number % 2], number / 2 % $4,
       'recipient-' || number, '{"body": "Message {{ number }}"}', jsonb_build_object('number', number), 100
  FROM generate_series($1::int, $2::int) AS number, (SELECT $3::text[] AS channels) AS named
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
"""


class Feed:
    """Writes messages by number, from 0; `written` is how many there are."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.written = 0

    async def write(self, until: int) -> None:
        """Write up to a number, a batch at a time; a batch that was written already stays as it is."""
        while self.written < until:
            last = min(until, self.written + BATCH_MAX)
            await self._database.persist("feed", partial(self._write, self.written, last))
            self.written = last

    async def _write(self, first: int, end: int) -> None:
        await self._database.fetch(_WRITE, first, end - 1, list(CLASSES), LANES)
