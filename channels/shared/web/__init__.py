"""The web: the one HTTP client for outgoing URLs, and what its users share. Providers are made of it; it is none."""

from channels.shared.web.client import Answer, Bounds, Call, Client, LicenceOver, Lost
from channels.shared.web.guard import Guard, Open, guarded, ranges, sound

__all__ = ["Answer", "Bounds", "Call", "Client", "Guard", "LicenceOver", "Lost", "Open", "guarded", "ranges", "sound"]
