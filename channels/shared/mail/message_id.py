"""The part of a mail's Message-ID before the @."""

from hashlib import blake2b

IDENTITY_BYTES = 16


def message_identity(
    tenant_id: str, workspace_id: str, idempotency_key: str, delivery_id: int, dated: int, recipient: str
) -> str:
    """A text that no other delivery has, here or in another database: a hash of everything that identifies it."""
    source = f"{tenant_id}\0{workspace_id}\0{idempotency_key}\0{delivery_id}\0{dated}\0{recipient}"
    return blake2b(source.encode("utf-8", "surrogatepass"), digest_size=IDENTITY_BYTES).hexdigest()
