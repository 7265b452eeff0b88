"""Held deliveries: a call was begun and nobody knows how it ended. Somebody settles them."""
