"""DeepSeek's tool-call syntax: parser, grammar, prompt text. Pure."""
