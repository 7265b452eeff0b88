"""A slow session: for statements that read whole tables, and may take as long as that takes."""

from typing import TYPE_CHECKING

from msgspec import structs

from dispatcher.cli.session import POOL_MAX, WAIT_SECONDS_MAX, Session
from dispatcher.db.database import Database

if TYPE_CHECKING:
    from dispatcher.config.settings import Database as Settings

# A billion rows can be read within it; what takes longer hangs.
STATEMENT_SECONDS_MAX = 6 * 3_600.0
# The planner's own judgement: what the hot statements forbid it is best where every row is looked at.
PLANNED = {"application_name": "dispatcher operator", "timezone": "UTC"}


class SlowSession(Session):
    """A session whose statements are planned freely and take their time."""

    @classmethod
    def of(cls, session: Session) -> "SlowSession":
        """The same command, slowly."""
        return cls(session.config_path, session.output.as_json)

    async def _open(self) -> Database:
        # The session's own database waits for the server and asks for the schema.
        await (await super()._open()).close()
        settings: Settings = structs.replace(
            self.config.database,
            pool_max=POOL_MAX,
            connect_seconds_max=WAIT_SECONDS_MAX,
            statement_seconds_max=STATEMENT_SECONDS_MAX,
        )
        database = Database(settings, self._url, PLANNED)
        await database.open()
        return database
