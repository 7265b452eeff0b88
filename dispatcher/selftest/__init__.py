"""The selftest: what a dispatcher is tried against (a provider with books of its own, a proxy that breaks lines)."""
