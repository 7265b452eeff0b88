"""The simulation of a run, which writes and sends nothing."""
