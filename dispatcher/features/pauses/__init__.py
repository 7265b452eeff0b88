"""Pauses: what operators have stopped, in a workspace or everywhere."""
