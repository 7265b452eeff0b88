"""Persons: what a person was sent and why, all records of a person, and erasing them."""
