"""The HTTP client for outgoing URLs, and the code that the channels over HTTP share."""

from channels.shared.web.client import Answer, Bounds, Call, Client, LicenceOver, Lost
from channels.shared.web.guard import OpenGuard, guard_of

__all__ = ["Answer", "Bounds", "Call", "Client", "LicenceOver", "Lost", "OpenGuard", "guard_of"]
