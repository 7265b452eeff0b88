"""Templates: what messages say, kept as versions."""
