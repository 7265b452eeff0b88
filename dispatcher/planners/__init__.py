"""Planners: they lock what is due, let the domain decide, and write all of it in one transaction."""
