"""How models write tool calls: parsers, grammars, prompt text. Pure; knows nothing of chat frames."""
