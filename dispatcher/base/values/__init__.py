"""Values that several rooms read and write: addresses, durations, locales, time zones, keys."""
