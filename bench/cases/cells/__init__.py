"""Cells: several databases on one machine, and what it costs to know which tenant is in which."""
