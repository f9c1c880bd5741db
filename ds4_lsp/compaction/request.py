"""What the model is asked when it is to summarise. No tools run while it answers."""

from __future__ import annotations

HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Jobs",
    "Current Work",
    "Next Step",
    "Critical Context",
)


def summary_request(*, part_only: bool = False, instructions: str | None = None) -> str:
    """The request, as a user message. ``part_only``: the conversation is shown in parts; ``instructions``: what the
    user added to ``/compact``."""
    headings = "\n".join(f"## {heading}" for heading in HEADINGS)
    lines = [
        "Context is running out. Do not go on with the task in this reply: write a summary that will stand in place of "
        "the conversation above, so that the work can go on from it alone.",
        f"Use exactly these headings, in this order:\n{headings}",
        "- Only what lasts: goals and constraints; files inspected or edited; commands and their important results; "
        "decisions, rejected approaches, known bugs; the next steps.\n"
        "- Copy exact paths, commands, error messages and identifiers literally.\n"
        "- Invent nothing. No raw file contents unless they led to a conclusion; name bulky data by path and line "
        "range, so that it can be read again.\n"
        "- If there is an earlier checkpoint or summary, merge what still holds; do not copy it.\n"
        "- Write in the language that the user writes in; keep the headings as they are.\n"
        "- No tool calls. Answer with the summary only, and be brief.",
    ]
    if part_only:
        lines.append("This is one part of a long conversation; cover everything seen so far, in one summary.")
    if instructions:
        lines.append(f"The user asks to keep in mind: {instructions}")
    return "\n\n".join(lines)


def carried(summary: str) -> str:
    """How the summary of the earlier parts is shown together with the next part."""
    return f"[Summary of the conversation before this point]\n\n{summary}"
