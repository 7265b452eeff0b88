"""Pauses of operators, and whether one applies to a delivery."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from dispatcher.engine.rules.life import Claimed

# What an operator pauses by name. A run is paused as a run, which pauses its deliveries too.
Scope = Literal["channel", "provider", "tenant", "template", "workspace"]
SCOPES: tuple[Scope, ...] = ("channel", "provider", "tenant", "template", "workspace")
# What there is in a workspace; a pause of the others holds everywhere.
PLACED: tuple[Scope, ...] = ("channel", "template", "workspace")


class Inside(Struct, frozen=True):
    """The pauses of one workspace: itself, channels and templates, each with the pause's id."""

    whole: int | None = None
    channels: Mapping[str, int] = field(default_factory=dict)
    templates: Mapping[str, int] = field(default_factory=dict)

    def parks(self, channel: str, template: str | None) -> int | None:
        """The pause that a delivery of the workspace waits for."""
        found = self.whole if self.whole is not None else self.channels.get(channel)
        return found if found is not None or template is None else self.templates.get(template)


class CampaignLimit(Struct, frozen=True):
    """The limits of a campaign run: messages a second of all replicas together, and when its closed window opens."""

    rate: float | None = None
    opens_at: datetime | None = None


class Pauses(Struct, frozen=True):
    """The open pauses: each name with the pause's id."""

    channels: Mapping[str, int] = field(default_factory=dict)
    providers: Mapping[str, int] = field(default_factory=dict)
    tenants: Mapping[str, int] = field(default_factory=dict)
    templates: Mapping[str, int] = field(default_factory=dict)
    # By the run's id, as text.
    runs: Mapping[str, int] = field(default_factory=dict)
    # As `runs`.
    campaign_runs: Mapping[str, int] = field(default_factory=dict)
    # By the sequence's id, as text.
    sequences: Mapping[str, int] = field(default_factory=dict)
    # Of open campaign runs that have any.
    campaign_limits: Mapping[int, CampaignLimit] = field(default_factory=dict)
    # By tenant and workspace.
    places: Mapping[tuple[str, str], Inside] = field(default_factory=dict)

    def stops(self, channel: str, providers: Sequence[Sequence[str]]) -> bool:
        """Whether a whole channel stands still: it, or each of its providers, by any of that one's names."""
        if not self.providers:
            return channel in self.channels
        stopped = (any(name in self.providers for name in names) for names in providers)
        return channel in self.channels or (bool(providers) and all(stopped))

    def parks(self, item: Claimed) -> int | None:
        """The pause that a delivery of a running channel waits for."""
        if self.tenants and (pause := self.tenants.get(item.tenant_id)) is not None:
            return pause
        of_one = (
            (self.runs, item.run_id),
            (self.campaign_runs, item.campaign_run_id),
            (self.sequences, item.sequence_id),
        )
        for paused, number in of_one:
            if paused and number is not None and (pause := paused.get(str(number))) is not None:
                return pause
        if self.places and (place := self.places.get((item.tenant_id, item.workspace_id))) is not None:
            pause = place.parks(item.channel, item.template_name)
            if pause is not None:
                return pause
        if self.templates and item.template_name is not None:
            return self.templates.get(item.template_name)
        return None

    def parks_some(self) -> bool:
        """Whether any delivery has to be looked at by itself."""
        return bool(
            self.tenants
            or self.templates
            or self.runs
            or self.campaign_runs
            or self.sequences
            or self.places
            or any(limit.opens_at is not None for limit in self.campaign_limits.values())
        )

    def opens_at(self, item: Claimed) -> datetime | None:
        """Return when the closed window of a delivery's campaign run opens; None where it is open."""
        limit = None if item.campaign_run_id is None else self.campaign_limits.get(item.campaign_run_id)
        return None if limit is None else limit.opens_at
