"""Postgres: the pool, transactions, statements, row-level security, failover, the embedded server."""
