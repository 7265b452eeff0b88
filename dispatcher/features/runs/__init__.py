"""Runs: triggers, walks through workflows, and what operators do to them."""
