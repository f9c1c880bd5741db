"""What the server adds to the model's work, measured: ``make bench``; see ``docs/performance.md``."""
