"""Pure decisions of the engine."""
