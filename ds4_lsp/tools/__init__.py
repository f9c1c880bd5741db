"""The agent's tools: one small module each, all of one shape."""
