"""Dead letters: runs and deliveries that have failed for good, until somebody replays or discards them."""
