"""Benchmarks: what this program promises in numbers, measured from outside and beside something comparable."""
