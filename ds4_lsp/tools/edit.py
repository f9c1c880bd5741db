"""The tool ``edit``: replace lines, or a text, that the model has seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field, model_validator

from ds4_lsp.edits.guard import Lines, OldText, Target, Whole
from ds4_lsp.edits.pages import header
from ds4_lsp.edits.text import LineIndex
from ds4_lsp.edits.uris import from_path
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest
from ds4_lsp.tools.applying import EditDone, EditRequest, OnEdit, apply_guarded
from ds4_lsp.tools.base import UNTAUGHT, Call, Shown, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.guess import existing
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.refused import what_stands_there

MOST_LEFT = 8
"""Lines named in which a replaced name still stands."""
NEXT = "[If that is all that was asked, say so in one sentence; else go on.]"
"""Small models repeat an edit that succeeded, for want of anything else to do."""


class EditArguments(ToolArguments):
    path: str = Field(description="File.")
    old: str | None = Field(None, description="Text to replace, as it stands in the file, without line numbers.")
    new: str = Field(description="What to put there; empty deletes.")
    all: bool = Field(False, description="Replace every occurrence of old.")
    file_tag: str | None = Field(None, json_schema_extra=UNTAUGHT, description="The tag shown with those lines.")
    line: int | None = Field(None, ge=1, json_schema_extra=UNTAUGHT, description="The one line to replace.")
    range: str | None = Field(None, json_schema_extra=UNTAUGHT, description='Lines to replace, as "12-15", or "all".')
    start_line: int | None = Field(None, ge=1, json_schema_extra=UNTAUGHT, description="First line to replace.")
    end_line: int | None = Field(
        None,
        ge=0,
        json_schema_extra=UNTAUGHT,
        description="Last line to replace. start_line - 1 replaces none: new goes before start_line.",
    )

    @model_validator(mode="after")
    def _one_target(self) -> EditArguments:
        ends = (self.start_line, self.end_line)
        named = [self.line is not None, self.range is not None, ends != (None, None), self.old is not None]
        if sum(named) != 1:
            raise ValueError("name exactly one target: line, or range, or start_line with end_line, or old")
        if named[2] and None in ends:
            raise ValueError("start_line and end_line go together")
        return self

    def target(self) -> Target:
        """``InvalidRequest``: ``range`` is neither lines nor "all"."""
        if self.old is not None:
            return OldText(self.old)
        if self.line is not None:
            return Lines(self.line, self.line)
        if self.start_line is not None and self.end_line is not None:
            return Lines(self.start_line, self.end_line)
        text = (self.range or "").strip()
        if text == "all":
            return Whole("lines")
        found = re.fullmatch(r"(\d+)(?:\s*[-–:]\s*(\d+))?", text)
        if found is None:
            raise InvalidRequest(f'range="{text}" is not understood: give lines as "12-15", or "all".')
        return Lines(int(found[1]), int(found[2] or found[1]))


class Edit(Tool[EditArguments]):
    name = "edit"
    one_of = (("old",), ("line",), ("range",), ("start_line", "end_line"))
    description = "Replace a text in a file that you were shown."
    Arguments = EditArguments
    changes = True

    def __init__(self, files: Files, gate: Gate, on_edit: OnEdit) -> None:
        self._files = files
        self._gate = gate
        self._on_edit = on_edit

    async def run(self, arguments: EditArguments, call: Call) -> ToolResult:
        """Errors: those of :func:`~ds4_lsp.tools.applying.apply_guarded`, ``OutsideWorkspace``, ``Denied``."""
        target = arguments.target()
        if arguments.old and arguments.old == arguments.new:
            raise InvalidRequest("`old` and `new` are the same: nothing was changed. Give the changed text as `new`.")
        found = await existing(self._files, arguments.path, call)
        path = found.path
        name = self._files.workspace.display(path)
        await self._gate.check("write", detail=name, key=str(path), call=call)
        request = EditRequest(
            path,
            target,
            arguments.new,
            arguments.file_tag or "",
            f"ds4: edit {name}",
            slips=True,
            every=arguments.all,
        )
        done = await apply_guarded(self._files, request, call, on_edit=self._on_edit)
        done = replace(done, notes=(found.note, *done.notes)) if found.note else done
        return report(done, await self._files.problems(done.edit) if done.changed else ())

    async def after_refusal(self, arguments: EditArguments, error: Ds4Error, call: Call) -> ToolResult | None:
        return await what_stands_there(self._files, arguments.path, error, call, arguments.old or "")


def report(done: EditDone, problems: Sequence[str] = ()) -> ToolResult:
    """What the model is told of an edit that was applied, and of the ``problems`` that it brought in."""
    edit, name = done.edit, done.name
    start, end, total = done.start_line, done.end_line, done.total
    notes = [_deed(done), *done.notes]
    notes += [f"Broken by this edit: {problem}. Mend it before you go on." for problem in problems]
    if done.rebased:
        first, last = done.replaced
        notes.append(f"The file had changed since you read it; your lines now were {_rows(first, last)}.")
    if done.shift and not done.created and end < total:
        notes.append(f"Lines below moved by {done.shift:+d}: their old numbers are stale.")
    if not done.saved:
        where = "Changed in the editor but not saved" if done.changed else "The editor has not saved it"
        notes.append(f"{where}: commands run by `bash` still see the old text.")
    if done.current_tag != edit.after_tag:
        notes.append(
            f"The file has changed again since (by the user, or a formatter on save), to file_tag={done.current_tag}: "
            "read it again before you edit it."
        )
    first = done.shown[0][0] if done.shown else 1
    last = done.shown[-1][1] if done.shown else 0
    notes.append(header(name, edit.after_tag, first, last, total))
    return ToolResult(
        "\n".join(filter(None, (*notes, done.around, _left(done) or NEXT))),
        shown=(Shown(from_path(edit.path), name, edit.after_tag, done.shown),),
        data={
            "fileTag": edit.after_tag,
            "startLine": start,
            "endLine": end,
            "rebased": done.rebased,
            "saved": done.saved,
            **({"problems": list(problems)} if problems else {}),
        },
    )


def _left(done: EditDone) -> str:
    """Where a name still stands that the edit replaced by another one: renaming is seldom done in one place."""
    if done.created or not done.changed:
        return ""
    old = _words("".join(LineIndex(done.edit.before).rows(*done.replaced)))
    after = LineIndex(done.edit.after)
    new = _words("".join(after.rows(done.start_line, done.end_line)))
    gone, come = old - new, new - old
    if len(gone) != 1 or len(come) != 1:
        return ""
    [name] = gone
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    found = [str(number) for number, row in enumerate(after, 1) if pattern.search(row)]
    if not found:
        return ""
    more = ", …" if len(found) > MOST_LEFT else ""
    where = f"{'line' if len(found) == 1 else 'lines'} {', '.join(found[:MOST_LEFT])}{more}"
    return f"[{name} still stands in {where}. If that is meant too, go on with it; else say that all is done.]"


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", text))


def _deed(done: EditDone) -> str:
    name = done.name
    if done.created:
        return f"Created {name} with {done.total} lines."
    if not done.changed:
        return f"{name} reads so already: nothing was changed."
    first, last = done.replaced
    if last < first:
        return f"Edited {name}: inserted {_rows(done.start_line, done.end_line)}."
    if done.end_line < done.start_line:
        return f"Edited {name}: deleted {_rows(first, last)}."
    if (first, last) == (done.start_line, done.end_line):
        return f"Edited {name}: {_rows(first, last)} {'is' if first == last else 'are'} changed."
    return f"Edited {name}: {_rows(first, last)} became {_rows(done.start_line, done.end_line)}."


def _rows(first: int, last: int) -> str:
    if last < first:
        return f"the place before line {first}"
    return f"line {first}" if first == last else f"lines {first}-{last}"
