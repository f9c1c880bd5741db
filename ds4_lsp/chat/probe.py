"""The calls and results that a template is shown, so that what it writes around them can be cut out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROBE = "probe_aqz"
SECOND = "probe_bqz"
IDS = ("pqzcall01", "pqzcall02")
"""Nine letters and digits: what Mistral's templates insist on."""
RESULTS = ("Res1fWsentinel", "Res2gKsentinel")
ESCAPED = 'Res1fW "é"\nsentinel'
"""A result that JSON would write otherwise."""
ARGUMENTS: tuple[Mapping[str, Any], Mapping[str, Any]] = (
    {"alphaqz": "Val1qz", "betaqz": 47113, "gammaqz": True},
    {"alphaqz": "Val2qz", "betaqz": 52129, "gammaqz": False},
)
TOOLS: tuple[Mapping[str, Any], ...] = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A probe.",
            "parameters": {
                "type": "object",
                "properties": {
                    "alphaqz": {"type": "string", "description": "A text."},
                    "betaqz": {"type": "integer", "description": "A number."},
                    "gammaqz": {"type": "boolean", "description": "Yes or no."},
                },
                "required": ["alphaqz"],
            },
        },
    }
    for name in (PROBE, SECOND)
)
CALLED: Mapping[str, Any] = {
    "content": "",
    "tool_calls": [{"id": IDS[0], "type": "function", "function": {"name": PROBE, "arguments": {"alphaqz": "Val1qz"}}}],
}
"""A message with one call."""
