"""Rules: who is told what about an event."""
