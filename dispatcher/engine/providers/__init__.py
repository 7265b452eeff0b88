"""The providers of a channel: their terms, and which of several a delivery goes to."""
