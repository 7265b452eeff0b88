"""Functions: deliveries that call a function of the operator's by its name, and bring back what it answers."""
