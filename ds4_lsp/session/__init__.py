"""The event log, its projections, and what is kept on disk beside it."""
