"""Dead letters: runs and deliveries that have failed for good, until they are replayed or discarded."""
