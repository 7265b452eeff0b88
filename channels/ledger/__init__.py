"""Ledger: hands messages over a socket to a provider that keeps its own books, so that both books can be compared."""

from channels.ledger.channel import Ledger, LedgerOptions

__all__ = ["Ledger", "LedgerOptions"]
