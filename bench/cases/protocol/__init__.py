"""The cases about the protocol: the price of the mark."""
