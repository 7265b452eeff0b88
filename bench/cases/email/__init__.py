"""The cases about e-mail: the rate, and the rate to a server that is far away."""
