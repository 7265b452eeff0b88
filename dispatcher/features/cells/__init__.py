"""Cells: databases of one installation, each with its own tenants."""
