"""The guarded path from an edit's target to the changed file, for the tools, ``ds4.applyEdit`` and undo alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ds4_lsp.edits import context, disk
from ds4_lsp.edits.guard import OldText, Refusal, Target, resolve
from ds4_lsp.edits.pages import excerpt
from ds4_lsp.edits.plan import plan
from ds4_lsp.edits.slips import Mended, mend
from ds4_lsp.edits.text import LineIndex, file_tag
from ds4_lsp.edits.unfit import unfit
from ds4_lsp.edits.uris import from_path
from ds4_lsp.edits.views import FileViews, Ranges, Splice, View
from ds4_lsp.ports import FileEdit
from ds4_lsp.protocol.errors import Ambiguous, Denied, Ds4Error, InvalidRequest, NotApplied, NotFound, StaleFileTag
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.files import Files, Loaded

LONGEST_REASON = 300
"""Code points of a client's own words: a result that they fill leaves the model nothing else to read."""


@dataclass(frozen=True)
class EditRequest:
    """``target`` None creates the file. ``path``: real. ``file_tag``: of the text that the author saw.

    ``require_shown`` False is for clients and undo, which know the whole text that they name. ``save`` False leaves the
    file unsaved whatever the settings say. ``slips``: a model wrote it, so that its slips are mended and an empty
    ``file_tag`` means the text that it was shown last. ``every``: all occurrences of an old text are meant.
    """

    path: Path
    target: Target | None
    new_text: str
    file_tag: str
    label: str
    require_shown: bool = True
    save: bool = True
    slips: bool = False
    every: bool = False


@dataclass(frozen=True)
class EditDone:
    """An edit that is in the file; not ``changed``: the text was so already, and nothing was done.

    ``replaced``: the lines it took the place of; ``start_line`` to ``end_line``: the lines it is now. Both are 1-based
    inclusive, and end before they start when there are none. ``shift``: by how much the lines below moved.
    ``current_tag``: differs from ``edit.after_tag`` when the file has changed again, as by a formatter on save.
    ``saved_tag``: that of the text on disk when the edit's own save changed it, as formatters do.
    ``around`` and ``shown``: the text around the edit with line numbers, and which of its lines are whole. ``notes``:
    what was mended in how the edit was named.
    """

    edit: FileEdit
    call: Call
    name: str
    replaced: tuple[int, int]
    start_line: int
    end_line: int
    total: int
    shift: int
    around: str
    shown: Ranges
    current_tag: str
    rebased: bool = False
    saved: bool = False
    saved_tag: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def created(self) -> bool:
        return self.edit.create

    @property
    def changed(self) -> bool:
        return self.edit.create or self.edit.before != self.edit.after


OnEdit = Callable[[EditDone], None]


async def apply_guarded(
    files: Files,
    request: EditRequest,
    call: Call,
    *,
    views: FileViews | None = None,
    on_edit: OnEdit | None = None,
) -> EditDone:
    """Apply one edit or change nothing. ``on_edit`` hears of it as soon as it is in the file.

    ``views``: those of the author, by default the session's. Errors: ``StaleFileTag``, ``Ambiguous``, ``NotFound``,
    ``InvalidRequest`` (refused); ``NotApplied`` (the editor did not do it); ``Denied`` (the user rejected the preview);
    ``StorageFailed`` (there is no room to keep what undo needs).
    """
    views = files.views if views is None else views
    async with files.lock(request.path):
        if request.target is None:
            done = await _create(files, request, call)
        else:
            done = await _change(files, request, request.target, call, views)
        _remember(views, done, request, files)
        if on_edit is not None and done.changed:
            on_edit(done)
        return done


async def _create(files: Files, request: EditRequest, call: Call) -> EditDone:
    path, name = request.path, files.workspace.display(request.path)
    if await files.exists(path):
        raise StaleFileTag(f"{name} exists already: read it, and give its file_tag to replace what is in it.")
    edit = FileEdit(
        uri=from_path(path),
        path=path,
        version=None,
        before="",
        start=0,
        end=0,
        new_text=request.new_text,
        before_tag=file_tag(""),
        after_tag=file_tag(request.new_text),
        label=request.label,
        create=True,
        save=request.save and files.settings().edits.save,
    )
    return await _send(files, _done(edit, call, name, (1, 0), least=0))


async def _change(files: Files, request: EditRequest, target: Target, call: Call, views: FileViews) -> EditDone:
    loaded = await _load(files, request, views)
    tag = request.file_tag.strip().strip("\"'").lower()
    if request.slips and not tag:
        tag = views.latest(loaded.key) or ""
    view = views.seen(loaded.key, tag)
    if request.slips and not tag:
        raise _refused(loaded, Refusal("staleFileTag", "none of it was shown in this session"), tag)
    mended = _mended(request, target, loaded, tag, view)
    target = mended.target
    found = resolve(
        target,
        mended.new,
        tag=tag,
        current=loaded.text,
        view=view,
        mode=files.settings().edits.guard,
        require_shown=request.require_shown,
    )
    if isinstance(found, Refusal):
        raise _refused(loaded, found, tag)
    edit = plan(
        uri=loaded.uri,
        path=loaded.path,
        version=loaded.version,
        before=loaded.text,
        start=found.start,
        end=found.end,
        new_text=found.new_text,
        label=request.label,
        save=request.save and files.settings().edits.save,
    )
    done = _done(edit, call, loaded.name, (found.start_line, found.end_line), least=isinstance(target, OldText))
    done = replace(done, rebased=found.rebased, notes=mended.notes)
    if not done.changed:
        return replace(done, saved=loaded.source == "disk" or await _is_on_disk(loaded))
    return await _send(files, done)


def _mended(request: EditRequest, target: Target, loaded: Loaded, tag: str, view: View | None) -> Mended:
    """The edit as its author meant it, in the text that it saw."""
    if not request.slips or view is None:
        return Mended(target, request.new_text)
    text = loaded.text if loaded.tag == tag else view.text
    if text is None:
        return Mended(target, request.new_text)
    mended = mend(target, request.new_text, text, every=request.every)
    if isinstance(mended, Refusal):
        raise _refused(loaded, mended, tag)
    return mended


def _done(edit: FileEdit, call: Call, name: str, replaced: tuple[int, int], least: int) -> EditDone:
    """``least``: how many lines the new text is in at least, 1 for a piece of a line."""
    rows = LineIndex(edit.after)
    total = len(rows)
    shift = total - len(LineIndex(edit.before))
    start = replaced[0]
    end = min(max(replaced[1] + shift, start + least - 1), total)
    around, shown = excerpt(rows, context.around(start, end, total))
    return EditDone(edit, call, name, replaced, start, end, total, shift, around, shown, edit.after_tag)


async def _load(files: Files, request: EditRequest, views: FileViews) -> Loaded:
    try:
        return await files.load(request.path)
    except NotFound:
        if not views.any(from_path(request.path)):
            raise
        name = files.workspace.display(request.path)
        raise StaleFileTag(
            f"{name} was deleted since it was read. If it should exist, create it with `write` and no file_tag.",
            expected=request.file_tag,
            current=None,
        ) from None


async def _send(files: Files, done: EditDone) -> EditDone:
    """Have the editor apply it, and look whether it did."""
    edit, name = done.edit, done.name
    problem = unfit(edit.before, edit.new_text, edit.after)
    if problem is not None:
        raise InvalidRequest(f"{name} was not changed: {problem}.")
    files.before_edit(edit)
    await files.workspace.check(edit.path, done.call)
    applied = await files.editor.apply(edit)
    if applied.rejected:
        raise Denied(f"{name} was not changed: the user rejected this edit in the preview. Ask what they want instead.")
    if applied.failure is not None:
        reason = clipped(applied.failure)
        raise NotApplied(
            f"{name} was not edited as asked: {reason}. Read it again before you try once more.",
            uri=edit.uri,
            reason=reason,
        )
    try:
        now = await files.load(edit.path)
    except Ds4Error as error:
        raise NotApplied(f"{name} was edited, but cannot be read any more: {error.message}", uri=edit.uri) from error
    if now.tag == edit.before_tag != edit.after_tag:
        raise NotApplied(
            f"{name} was not changed, although the editor said so. Read it again before you try once more.",
            uri=edit.uri,
            reason="the editor said that it changed it, and did not",
        )
    return replace(done, saved=applied.saved, current_tag=now.tag, saved_tag=applied.saved_tag)


async def _is_on_disk(loaded: Loaded) -> bool:
    try:
        found = await asyncio.to_thread(disk.read, loaded.path)
    except Ds4Error:
        return False
    return found.text == loaded.text


def clipped(reason: str) -> str:
    """What a client gave as its reason, at a length that a model and a user can be told."""
    text = " ".join(reason.split())
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}…"


def _refused(loaded: Loaded, why: Refusal, tag: str) -> Ds4Error:
    message = context.refusal(loaded.name, why, tag, loaded.tag)
    kind = {"staleFileTag": StaleFileTag, "ambiguous": Ambiguous, "invalid": InvalidRequest}[why.code]
    return kind(message, uri=loaded.uri, expected=tag or None, current=loaded.tag, reason=why.message, read=why.read)


def _remember(views: FileViews, done: EditDone, request: EditRequest, files: Files) -> None:
    edit, key = done.edit, from_path(done.edit.path)
    if request.require_shown:
        # The lines around it are seen with the result, and what the author wrote is known at once.
        around = () if files.deferred else done.shown
        views.edited(key, edit.before_tag, edit.after, Splice(*done.replaced, done.shift), around)
    elif views is not files.views:
        # A client knows the text that it made; the model has been shown nothing of it.
        views.show(key, edit.after, [(1, done.total)])
