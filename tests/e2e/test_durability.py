"""SIGKILL of the real server between any two things that it does to a session's log, and what is there afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsp_client import Client, Disconnected
from rig import LONG, Rig, call, prompt
from session_logs import check, log_path, only, parse, read, surface

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa "
DYING = (str(Path(__file__).parent / "dying_server.py"),)
SETTINGS = {"permissions": {"bash": "allow"}}
TURN = (
    "I will do both.\n\n"
    + call("write", path="new.txt", content="written\n").removesuffix("</｜DSML｜tool_calls>")
    + call("bash", command="echo ran >> ran.txt").removeprefix("<｜DSML｜tool_calls>\n"),
    "Both are done.",
)
SUMMARY = {"purpose": "summary", "text": "## Current Work\nThe words are kept."}


class Victim:
    """Servers over one workspace, each killed at a point of its work, one point later each time."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.order = rig.root / "dying"
        self.passed = Path(f"{self.order}.passed")

    async def start(self, *replies: str | dict[str, Any]) -> Client:
        self.order.unlink(missing_ok=True)
        self.passed.unlink(missing_ok=True)
        return await self.rig.start(
            script=self.rig.script(*replies), settings=SETTINGS, env={"DYING": str(self.order)}, program=DYING
        )

    async def killed(self, client: Client, point: int, name: str, arguments: dict[str, Any]) -> bool:
        """Run a command, to be killed before the passage ``point``; False when it ended before that."""
        self.order.write_text(str(point))
        try:
            await client.run(name, arguments, timeout=LONG)
        except Disconnected:
            await client.process.wait()
            assert client.process.returncode == -9
            return True
        self.order.unlink()
        return False

    @property
    def points(self) -> list[str]:
        return self.passed.read_text().splitlines()


def acknowledged(client: Client, session: str) -> list[tuple[int, str]]:
    """What the client was told is in the log: seq and kind of each event that has one."""
    ours = [event for event in client.events() if event["sessionId"] == session]
    return [(event["seq"], event["kind"]) for event in ours if "seq" in event]


LOGGED = {
    "turn.start": "turn/start",
    "tool.result": "tool/result",
    "edit": "edit/applied",
    "queued": "prompt/queued",
    "compaction.start": "compact/start",
}


async def test_a_turn_killed_at_any_point_of_its_log_loses_nothing_acknowledged(tiny: Rig) -> None:
    victim = Victim(tiny)
    client = await victim.start(*TURN)
    point = 0
    while True:
        session = (await client.run("ds4.newSession"))["sessionId"]
        for name in ("new.txt", "ran.txt"):
            (tiny.workspace / name).unlink(missing_ok=True)
        ended = not await victim.killed(client, point, "ds4.prompt", {"text": "do both"})
        if ended:
            break
        left = log_path(tiny, session).read_bytes()
        told = acknowledged(client, session)

        where = f"killed before {point}. {victim.points[-1]}"
        written = {event["type"] for event in parse(left)}
        # A prompt that was taken over and not yet sent to the model waits until the user sends it.
        requeued = "prompt/queued" in written and "user/message" not in written

        client = await victim.start(*["After."] * (1 + requeued), *TURN)
        await client.run("ds4.status")
        check_reopened(left, log_path(tiny, session).read_bytes(), told, where)
        reopened = read(tiny, session)
        interrupted = [event for event in only(reopened, "turn/end") if event["data"].get("interrupted")]
        assert len(interrupted) == ("turn/start" in written) - ("turn/end" in written), where
        # No side effect without a trace of it in the log.
        begun = [event["data"]["name"] for event in only(reopened, "tool/started")]
        ran, wrote = tiny.workspace / "ran.txt", tiny.workspace / "new.txt"
        assert wrote.exists() <= ("write" in begun), where
        assert ran.exists() <= ("bash" in begun), where
        assert [one["held"] for one in (await client.run("ds4.status"))["queue"]] == [True] * requeued, where
        await client.run("ds4.interrupt", {"sendQueued": True})
        answer = await prompt(client, "go on")
        assert (answer["sessionId"], answer["stopReason"], answer["text"]) == (session, "end", "After."), where
        events = read(tiny, session)
        check(events)
        prompts = [event["data"]["text"] for event in only(events, "user/message") if event["data"]["kind"] == "prompt"]
        assert prompts == ["do both"] * ("prompt/queued" in written) + ["go on"], where
        point += 1
    passages = victim.points
    assert point == len(passages)
    kinds = {"prompt/queued", "turn/start", "user/message", "assistant/message", "tool/started", "edit/applied"}
    assert kinds | {"job/started", "tool/result", "turn/end", "fsync"} <= set(passages)


async def test_a_compaction_killed_at_any_point_of_its_log_happens_wholly_or_not_at_all(tiny: Rig) -> None:
    victim = Victim(tiny)
    outcomes: dict[str, str] = {}
    client = await victim.start("Noted.", SUMMARY)
    point = 0
    while True:
        session = (await client.run("ds4.newSession"))["sessionId"]
        await prompt(client, "keep these: " + WORDS * 60)
        before = read(tiny, session)
        ended = not await victim.killed(client, point, "ds4.compact", {})
        if ended:
            break
        name = f"{point}. {victim.points[-1]}"
        left = log_path(tiny, session).read_bytes()
        told = acknowledged(client, session)
        written = parse(left)
        assert written[: len(before)] == before
        replaced = surface(written) != surface(before)

        client = await victim.start("After.", "Noted.", SUMMARY, SUMMARY)
        await client.run("ds4.status")
        check_reopened(left, log_path(tiny, session).read_bytes(), told, name)
        events = read(tiny, session)
        assert surface(events) == surface(written), "what was written is what the model sees"
        assert replaced == ("user/message" in [event["type"] for event in written[len(before) :]])
        if only(written, "compact/start") and not only(written, "compact/end"):
            [end] = only(events, "compact/end")
            assert end["data"].get("recovered", False) is replaced
            assert end["data"].get("error") == (None if replaced else "orphaned")
        outcomes[name] = "compacted" if replaced else "unchanged"
        assert (await prompt(client, "go on"))["text"] == "After."
        again = await client.run("ds4.compact", timeout=LONG)
        assert again["compacted"] is not replaced, name
        check(read(tiny, session))
        point += 1
    assert list(outcomes.values()) == sorted(outcomes.values(), reverse=True), outcomes
    assert [name.split(". ")[1] for name in outcomes] == [
        "compact/start",
        "fsync",
        "compact/summary",
        "fsync",
        "user/message",
        "compact/end",
        "fsync",
    ]
    assert list(outcomes.values()).count("compacted") == 2


def check_reopened(left: bytes, now: bytes, told: list[tuple[int, str]], where: str) -> None:
    """Everything that was whole is still there, unchanged; everything that was acknowledged is among it."""
    whole = left[: left.rfind(b"\n") + 1]
    assert now.startswith(whole), where
    events = parse(whole)
    for seq, kind in told:
        assert seq < len(events), f"{where}: {kind} {seq} was acknowledged and is lost"
        if kind in LOGGED:
            assert events[seq]["type"] == LOGGED[kind], where
    check(parse(now))
