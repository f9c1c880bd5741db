"""SIGKILL of the real server between any two steps of writing a file that is not open, and what is there afterwards."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from editor_model import tag_of
from lsp_client import PLAIN, Disconnected
from rig import LONG, Rig, call

DYING = (str(Path(__file__).parent / "dying_writer.py"),)
OLD = "eins 😀\r\nzwei\r\n"
NEW = OLD.replace("eins", "one", 1)


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def last_passed(order: Path) -> str:
    passed = Path(f"{order}.passed")
    name = passed.read_text().splitlines()[-1]
    passed.unlink()
    return name


async def killed(rig: Rig, step: int, command: str, arguments: dict[str, Any], **options: Any) -> str | None:
    """Have a server run a command, to be killed before a step of the write; that step's name, None after the last.

    What an earlier one left has to be gone when it has started.
    """
    order = rig.root / "dying"
    before = [path for path in everything(rig.workspace) if path.suffix != ".tmp"]
    client = await rig.start(capabilities=PLAIN, env={"DYING": str(order)}, program=DYING, **options)
    await client.run("ds4.newSession")
    assert everything(rig.workspace) == before
    assert everything(rig.state / "ds4-lsp" / "writing") == []
    order.write_text(str(step))
    try:
        await client.run(command, arguments, timeout=LONG)
    except Disconnected:
        assert await client.process.wait() == -9
        return last_passed(order)
    finally:
        order.unlink()
        await client.close()
    return None


async def test_an_edit_killed_at_any_step_leaves_the_old_file_or_the_new_one_whole(rig: Rig) -> None:
    path = rig.file("real/a.txt", "")
    link = rig.workspace / "link.txt"
    link.symlink_to("real/a.txt")
    edit = {"uri": link.as_uri(), "fileTag": tag_of(OLD), "oldText": "eins", "newText": "one"}
    seen: list[tuple[str, str]] = []
    while True:
        path.write_bytes(OLD.encode("utf-16"))
        path.chmod(0o640)
        step = await killed(rig, len(seen), "ds4.applyEdit", edit, settings={"model": {"preload": False}})
        found = path.read_bytes().decode("utf-16")
        assert found in (OLD, NEW)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert link.readlink() == Path("real/a.txt")
        if step is None:
            break
        seen.append((step, "new" if found == NEW else "old"))
    assert found == NEW
    names = [step for step, _state in seen]
    # The old one until it is replaced, and the new one from then on.
    at = names.index("replace") + 1
    assert [state for _step, state in seen] == ["old"] * at + ["new"] * (len(seen) - at)
    assert {"open", "fchmod", "fsync"} <= set(names[:at])
    assert "fsync" in names[at:]


async def test_a_creation_killed_at_any_step_leaves_no_file_or_the_whole_one(tiny: Rig) -> None:
    path = tiny.workspace / "new.txt"
    tiny.workspace.mkdir()
    seen: list[tuple[str, bool]] = []
    while True:
        path.unlink(missing_ok=True)
        script = tiny.script(call("write", path="new.txt", content=OLD), "Done.")
        step = await killed(tiny, len(seen), "ds4.prompt", {"text": "create it"}, script=script)
        assert not path.exists() or path.read_bytes().decode() == OLD
        if step is None:
            break
        seen.append((step, path.exists()))
    assert path.exists()
    assert [there for _step, there in seen] == sorted(there for _step, there in seen)
    assert ("link", False) in seen
    # Between the new name and the old one that goes both name the same whole file.
    assert ("unlink", True) in seen
