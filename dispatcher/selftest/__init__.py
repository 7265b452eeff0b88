"""The selftest: a provider that stores what it accepts, a proxy that breaks connections, and an audit."""
