"""Small jobs for the agent on a real model: what it solves, what it spends, and what it damages."""
