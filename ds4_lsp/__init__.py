"""A language server that hosts a coding agent on a local model."""

__version__ = "0.1.0"
