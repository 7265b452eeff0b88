"""Held deliveries: the outcome of a call is unknown, until an operator settles it."""
