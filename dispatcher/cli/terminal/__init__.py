"""The output of commands on the terminal."""
