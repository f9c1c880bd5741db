"""Slash prompts, carried out as the commands that they are, and worded for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from ds4_lsp.agent import slash
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol import commands as c

Run = Callable[[str, c.Arguments, Cancel], Awaitable[c.Wire]]
"""One command by its name, as a client would send it."""


class SlashCommands:
    """``run`` carries a command out; every client gets the same words for what came of it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ways: dict[str, Callable[[str, str | None, Cancel], Awaitable[tuple[str, str | None]]]] = {
            "compact": self._compact,
            "new": self._new,
            "list": self._list,
            "switch": self._switch,
            "history": self._history,
            "fork": self._fork,
            "delete": self._delete,
            "export": self._export,
            "save": self._save,
            "undo": self._undo,
            "stop": self._stop,
            "queue": self._queue,
            "unqueue": self._unqueue,
            "requeue": self._requeue,
            "send": self._send,
            "status": self._status,
            "jobs": self._jobs,
            "kill": self._kill,
            "load": self._load,
            "unload": self._unload,
            "help": self._help,
        }

    async def act(self, command: slash.Slash, session_id: str | None, cancel: Cancel) -> tuple[str, str | None]:
        """What came of it, and the session that it was about where that is another one."""
        return await self._ways[command.name](command.rest, session_id, cancel)

    async def _ask(self, name: str, arguments: c.Arguments, cancel: Cancel) -> Any:
        return await self._run(name, arguments, cancel)

    # --- sessions -------------------------------------------------------------------------------------------------

    async def _compact(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        done = await self._ask("ds4.compact", c.CompactArguments(session_id=session, instructions=rest or None), cancel)
        if done.reason:
            return done.reason, None
        shrunk = f"{done.before_tokens} → {done.after_tokens} tokens, tail {done.tail_token_count} tokens"
        return f"Compacted: {shrunk}.", None

    async def _new(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        new = await self._ask("ds4.newSession", c.NewSessionArguments(title=rest or None), cancel)
        return f"New session {new.session_id}.", new.session_id

    async def _list(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        listed = await self._ask("ds4.listSessions", c.NoArguments(), cancel)
        return "\n".join(_session(info) for info in listed.sessions) or "No sessions yet.", None

    async def _switch(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        done = await self._ask("ds4.switchSession", c.SwitchSessionArguments(session_id=rest), cancel)
        return _conversation(done.history), done.session_id

    async def _history(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        turns = _int(rest) if rest else 3
        shown = await self._ask("ds4.showHistory", c.ShowHistoryArguments(session_id=session, turns=turns), cancel)
        return _conversation(shown.history), None

    async def _fork(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        seq = _int(rest) if rest else None
        fork = await self._ask("ds4.forkSession", c.ForkSessionArguments(session_id=session, seq=seq), cancel)
        return f"Forked: session {fork.session_id}.", fork.session_id

    async def _delete(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        await self._ask("ds4.deleteSession", c.DeleteSessionArguments(session_id=rest), cancel)
        return f"Session {rest} is deleted.", None

    async def _export(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        form: Any = rest or "markdown"
        done = await self._ask("ds4.exportSession", c.ExportSessionArguments(session_id=session, format=form), cancel)
        return f"Written: {unquote(urlsplit(done.uri).path)}", None

    async def _save(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        saved = await self._ask("ds4.saveSession", c.SessionArguments(session_id=session), cancel)
        return f"Saved {saved.session_id}" + (" with a KV snapshot." if saved.snapshot else "."), None

    async def _undo(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        turn = _int(rest) if rest else None
        undone = await self._ask("ds4.undoTurn", c.UndoTurnArguments(session_id=session, turn=turn), cancel)
        lines = [f"restored {_name(uri)}" for uri in undone.reverted]
        lines += [f"skipped {_name(item.uri)}: {item.reason}" for item in undone.skipped]
        return "\n".join(lines), None

    # --- the turn and the queue -------------------------------------------------------------------------------------

    async def _stop(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        done = await self._ask("ds4.interrupt", c.InterruptArguments(session_id=session), cancel)
        return "Stopped." if done.interrupted else "Nothing runs.", None

    async def _queue(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        status = await self._ask("ds4.status", c.NoArguments(), cancel)
        return "\n".join(_waiting(item) for item in status.queue) or "Nothing waits.", None

    async def _unqueue(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        arguments = c.QueuedArguments(session_id=session, seq=_int(rest))
        done = await self._ask("ds4.dequeue", arguments, cancel)
        return f"#{_int(rest)} is taken back." if done.removed else f"#{_int(rest)} does not wait.", None

    async def _requeue(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        number, _, text = rest.partition(" ")
        arguments = c.EditQueuedArguments(session_id=session, seq=_int(number), text=text.strip())
        done = await self._ask("ds4.editQueued", arguments, cancel)
        return f"#{done.seq} is changed.", None

    async def _send(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        if not rest:
            await self._ask("ds4.interrupt", c.InterruptArguments(session_id=session, send_queued=True), cancel)
            return "What waits is sent.", None
        arguments = c.QueuedArguments(session_id=session, seq=_int(rest))
        done = await self._ask("ds4.releaseQueued", arguments, cancel)
        return f"#{_int(rest)} runs in its turn." if done.released else f"#{_int(rest)} was not held.", None

    # --- the server -------------------------------------------------------------------------------------------------

    async def _status(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        return _status(await self._ask("ds4.status", c.NoArguments(), cancel)), None

    async def _jobs(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        listed = await self._ask("ds4.listJobs", c.NoArguments(), cancel)
        return "\n".join(_job(job) for job in listed.jobs) or "No jobs.", None

    async def _kill(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        listed = await self._ask("ds4.stopJob", c.StopJobArguments(job=_int(rest)), cancel)
        return "\n".join(_job(job) for job in listed.jobs if job.job == _int(rest)), None

    async def _load(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        loaded = await self._ask("ds4.loadModel", c.LoadModelArguments(path=rest or None), cancel)
        return f"Loaded {(loaded.model or {}).get('name') or 'the model'}.", None

    async def _unload(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        await self._ask("ds4.unloadModel", c.NoArguments(), cancel)
        return "The model's memory is free. The next prompt loads it again.", None

    async def _help(self, rest: str, session: str | None, cancel: Cancel) -> tuple[str, str | None]:
        return slash.HELP, None


def _int(text: str) -> int:
    return int(text.removeprefix("#"))


def _name(uri: str) -> str:
    return PurePosixPath(unquote(urlsplit(uri).path)).name


def _session(info: c.SessionInfo) -> str:
    mark = "*" if info.current else " "
    title = " ".join(info.title.split())
    return f"{mark} {info.session_id[:8]}  {title}  ({info.turns} turns, {info.compactions} compactions)"


def _conversation(shown: list[c.HistoryEntry]) -> str:
    return "\n\n".join(f"{entry.role}: {entry.text}" for entry in shown) or "Nothing was said yet."


def _waiting(item: dict[str, Any]) -> str:
    return f"#{item['seq']}{' (held)' if item['held'] else ''}  {' '.join(str(item['text']).split())}"


def _job(job: c.JobInfo) -> str:
    status = "" if job.exit_status is None else f" {job.exit_status}"
    return f"job {job.job}: {job.state}{status}, {job.elapsed:.0f} s: {job.command}"


def _status(status: c.StatusResult) -> str:
    model, session = status.model or {}, status.session or {}
    context, generation = status.context, status.generation
    lines = [
        f"state     {status.state}",
        f"model     {model.get('name') or model.get('path') or 'none'}",
        f"context   {context.used} of {context.size} tokens ({context.percent:.0f} %)",
        f"speed     {generation.tokens_per_second:.1f} tokens/s in the last reply ({generation.tokens} tokens)",
        f"session   {session.get('sessionId') or session.get('id') or 'none'}",
        *(f"queued    {_waiting(item)}" for item in status.queue),
        *(_job(job) for job in status.jobs),
    ]
    return "\n".join([*lines, f"error     {status.error}"] if status.error else lines)
