"""Groups of deliveries: those of one mark by the provider that is called for them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from channels.contract import Envelope, Licence
from dispatcher.engine.providers.terms import Terms
from dispatcher.engine.rules.staging import Staging
from dispatcher.engine.staged import all_staged
from dispatcher.engine.streams import Rendered


class Group(Struct, frozen=True):
    """The deliveries of one provider, and, by id, those of them that go out otherwise than as rendered."""

    terms: Terms
    batch: Sequence[Rendered]
    outgoing: Mapping[int, Rendered] = {}

    def staged(self, staging: Staging) -> tuple["Group", Sequence[Rendered]]:
        """Return what goes out in staging, and the deliveries that do not."""
        outgoing = all_staged(self.batch, staging, self.terms.kind)
        barred = [one for one in self.batch if one.item.id not in outgoing]
        return Group(self.terms, [one for one in self.batch if one.item.id in outgoing], outgoing), barred

    def marked(
        self, licence: Licence, attempts: Mapping[int, int]
    ) -> tuple[list[Envelope], dict[int, Rendered], Sequence[Rendered]]:
        """Return the envelopes of those that the mark gave and these deliveries by id, and those that it left out."""
        found: dict[int, Rendered] = {}
        envelopes: list[Envelope] = []
        left: list[Rendered] = []
        for one in self.batch:
            delivery_id = one.item.id
            attempt = attempts.get(delivery_id)
            if attempt is None:
                left.append(one)
            else:
                found[delivery_id] = ready = self.outgoing.get(delivery_id, one)
                envelopes.append(ready.envelope(licence, attempt))
        return envelopes, found, left


def providers(groups: Sequence[Group]) -> str | Mapping[int, str]:
    """Return the provider of all deliveries, or that of each by its id."""
    if len(groups) == 1:
        return groups[0].terms.provider
    return {one.item.id: group.terms.provider for group in groups for one in group.batch}


def together(groups: Sequence[Group]) -> Sequence[Rendered]:
    """Return the deliveries of all groups."""
    return groups[0].batch if len(groups) == 1 else [one for group in groups for one in group.batch]
