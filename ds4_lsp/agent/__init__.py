"""One turn: rounds, queue, interruption. Asks, never draws."""
