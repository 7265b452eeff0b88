"""Postgres: one module per noun, its SQL beside it."""
