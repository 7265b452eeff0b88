"""Micro-benchmarks: the functions that run once per delivery or per batch."""
