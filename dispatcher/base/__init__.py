"""The base of all packages: errors, clock, metrics, logs, health, fault points."""
