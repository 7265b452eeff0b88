"""The walk through a plan: what follows from what has happened."""
