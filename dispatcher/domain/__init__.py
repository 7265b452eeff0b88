"""Pure decisions: no I/O, no await, no clock of their own."""
