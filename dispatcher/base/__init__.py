"""What everything else stands on: errors, clock, metrics, logs, health, fault points."""
