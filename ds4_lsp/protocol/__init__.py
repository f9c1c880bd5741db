"""The shapes that cross a process border: settings, commands, events, errors."""
