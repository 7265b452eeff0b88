"""The cases about sending policies: caps and quiet hours."""
