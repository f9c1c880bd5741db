"""How a message becomes tokens. Pure."""
