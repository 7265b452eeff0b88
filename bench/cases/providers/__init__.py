"""The cases about providers over HTTP, each beside its own client driven by hand."""
