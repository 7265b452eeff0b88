"""Capture: stores each message in a table, to be looked at and asserted on. Nothing leaves the machine."""
