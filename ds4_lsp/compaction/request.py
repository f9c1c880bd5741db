"""What the model is asked when it is to summarise. No tools run while it answers."""

from __future__ import annotations

SECTIONS = (
    ("Primary Request and Intent", "what the user wants, with every constraint and correction in the user's own words"),
    ("Key Technical Concepts", "languages, tools, formats and rules that the work depends on"),
    ("Files and Code", "each file that was looked at or changed, by its path: what matters in it, what is done to it"),
    (
        "Errors and Fixes",
        "each error with its message and numbers to the letter, its cause, what fixed it or was tried",
    ),
    ("Pending Jobs", "commands that still run, and work that was asked for and is not done; nothing that is done"),
    ("Current Work", "what was being done last, and how far it is"),
    ("Next Step", "the one thing to do next"),
    ("Critical Context", "decisions with their reasons, rejected ways, names, numbers, signatures, addresses"),
)
"""Heading, and what belongs below it."""
HEADINGS = tuple(heading for heading, _ in SECTIONS)


def summary_request(*, part_only: bool = False, instructions: str | None = None) -> str:
    """The request, as a user message. ``part_only``: the conversation is shown in parts; ``instructions``: what the
    user added to ``/compact``."""
    sections = "\n".join(f"## {heading}\n<{what}>" for heading, what in SECTIONS)
    lines = [
        "Context is running out. Do not go on with the task in this reply: write a summary that will stand in place of "
        "the conversation above, so that the work can go on from it alone.",
        "Use exactly these headings, in this order, with facts in place of what is in angle brackets. Below a heading "
        f"that nothing belongs to write (none).\n\n{sections}",
        "- Copy paths, numbers, signatures, error messages, and what the user corrected or decided, word for word. "
        "One short line for each fact; leave none out.\n"
        "- Only what the conversation says. No file contents; name the path and the lines.\n"
        "- Merge what still holds of an earlier checkpoint or summary. What is finished is finished, not pending.\n"
        "- Write in the language that the user writes in; keep the headings as they are.\n"
        "- No tool calls. Answer with the summary only.",
    ]
    if part_only:
        lines.append("This is one part of a long conversation; cover everything seen so far, in one summary.")
    if instructions:
        lines.append(f"The user asks to keep in mind: {instructions}")
    return "\n\n".join(lines)


def carried(summary: str) -> str:
    """How the summary of the earlier parts is shown together with the next part."""
    return f"[Summary of the conversation before this point]\n\n{summary}"
