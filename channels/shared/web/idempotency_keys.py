"""Keys: what a provider knows a delivery by."""

import hashlib
from urllib.parse import quote

from channels.contract import Envelope


def delivery_key(envelope: Envelope) -> str:
    """One text for one delivery, the same on every attempt. Ours is unique in its tenant and workspace only, may be of
    any length, and may have signs that no header takes."""
    parts = (envelope.tenant_id, envelope.workspace_id, envelope.idempotency_key)
    text = "|".join(quote(part, safe="", errors="surrogatepass") for part in parts)
    return "d-" + hashlib.sha256(text.encode()).hexdigest()
