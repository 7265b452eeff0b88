"""The workers of the features: what they do in the background, beside the pipeline."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from channels.shared.mail.message_id import message_identity
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Config, Walk
from dispatcher.db.database import Database
from dispatcher.engine.streams import Precedence
from dispatcher.engine.wakeup import Wakeup
from dispatcher.features.campaigns.worker import Expander
from dispatcher.features.caps.worker import Sweeper
from dispatcher.features.overview.worker import Recorder
from dispatcher.features.persons.worker import erase
from dispatcher.features.quiet_hours.worker import QuietHoursReader
from dispatcher.features.receipts.providers.receipt import Candidate
from dispatcher.features.receipts.worker import Matcher
from dispatcher.features.rules import store as rules
from dispatcher.features.runs.walk.poison_worker import PoisonWorker
from dispatcher.features.runs.walk.worker import Walker
from dispatcher.features.schedules.worker import Ticker
from dispatcher.features.suppressions.worker import Suppressor
from dispatcher.features.webhooks.worker import Announcer
from dispatcher.http.server import idempotency

# What the janitor does for features in each of its rounds.
CHORES = (idempotency.drop, erase, rules.forget, Sweeper())


class WalkWorker(Protocol):
    """A worker under the settings of walks."""

    settings: Walk

    async def run(self) -> None:
        """Work, for ever."""


class Workers:
    """The workers, on one database. `runs` has what each of them runs, by its name."""

    def __init__(
        self,
        database: Database,
        config: Config,
        epoch: Callable[[], int | None],
        clock: Clock,
        metrics: Metrics,
        wakeup: Wakeup,
        precedence: Precedence,
    ) -> None:
        settings, wake = config.walk, wakeup.walking
        ordered, expanding = wakeup.woken.set, wakeup.expanding
        self._expander = Expander(
            database, config.campaigns, epoch, clock, metrics, ordered, expanding, precedence=precedence
        )
        self.quiet_hours = QuietHoursReader(database, wakeup.policies)
        self.walker = Walker(database, settings, epoch, clock, metrics, ordered, wake)
        self._walking: Mapping[str, WalkWorker] = {
            "walker": self.walker,
            "poison": PoisonWorker(database, settings, metrics, wake.set),
            "ticker": Ticker(database, settings, metrics, wake.set),
            "announcer": Announcer(database, settings, metrics),
        }
        self.runs: Mapping[str, Callable[[], Awaitable[None]]] = {
            **{name: worker.run for name, worker in self._walking.items()},
            "expander": self._expander.run,
            "quiet hours": self.quiet_hours.run,
            "suppressor": Suppressor(database, wakeup.suppressed).run,
            "recorder": Recorder(database, epoch, metrics.ended).run,
            "matcher": Matcher(database, identity, metrics).run,
        }

    def adopt(self, config: Config) -> None:
        """Take over what a reload has changed."""
        for worker in self._walking.values():
            worker.settings = config.walk
        self._expander.settings = config.campaigns


def identity(candidate: Candidate) -> str:
    """Return the message id of one of our mails."""
    key = candidate.tenant_id, candidate.workspace_id, candidate.idempotency_key
    return message_identity(*key, candidate.id, candidate.dated, candidate.recipient)
