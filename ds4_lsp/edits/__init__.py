"""Text, tags, views and the guard. Pure."""
