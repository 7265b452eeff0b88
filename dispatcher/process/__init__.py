"""Commands about the process and its database: serve, migrate, check, selftest, quarantine, config."""
