"""Ledger: hands messages over a socket to a provider with a record of its own, so that both can be compared."""
