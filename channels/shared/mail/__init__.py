"""E-mail as bytes: composed from an envelope for every channel that sends mail."""
