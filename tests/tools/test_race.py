"""The agent and the user in one file at once: a model of the editor in which the user types at every moment."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.text import content, file_tag, lines
from ds4_lsp.protocol.errors import Ambiguous, NotApplied, StaleFileTag

starts = st.lists(
    st.tuples(st.sampled_from(["a", "b", "", "é😀", "x\x0cy", "z\u2028"]), st.sampled_from(["\n", "\r\n", "\r"])),
    max_size=8,
).map(lambda rows: "".join(map("".join, rows)))
steps = st.lists(
    st.tuples(
        st.sampled_from(["type", "delete", "read", "edit", "edit", "edit and type"]),
        st.integers(0, 99),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=8,
)


class Race:
    """One file, open or not. Each line that the user types is unique, so that its loss would be seen."""

    def __init__(self, room, text, is_open):
        self.room, self.path = room, room.write("a", text)
        self.typed = 0
        if is_open:
            room.editor.open(self.path)

    @property
    def text(self):
        document = self.room.editor.buffers.get(self.path)
        return document.text if document else self.path.read_bytes().decode()

    def change(self, where, gone):
        rows = lines(self.text)
        at = where % (len(rows) + 1)
        self.typed += 1
        text = "".join([*rows[:at], f"user {self.typed}\n", *rows[at + gone :]])
        if self.path in self.room.editor.buffers:
            self.room.editor.type(self.path, text)
        else:
            self.path.write_bytes(text.encode())

    async def edit(self, seen, where, size, *, typing):
        rows = lines(seen)
        start = where % (len(rows) + 1) + 1
        end = min(start + size - 1, len(rows))
        self.room.editor.on_apply = (lambda _edit: self.change(where, 0)) if typing else (lambda _edit: None)
        before = self.text
        try:
            await self.room.run(
                "edit", path="a", file_tag=file_tag(seen), start_line=start, end_line=end, new=f"agent {where}"
            )
        except (StaleFileTag, Ambiguous, NotApplied):
            # Refused: nothing but what the user typed has changed.
            kept = [line for line in lines(self.text) if content(line) != f"user {self.typed}" or not typing]
            assert "".join(kept) == before or self.text == before
            return
        # Applied: the lines that went are those that were seen, and everything else is still there.
        assert not typing or self.text == before
        done = self.room.edits[-1] if self.room.edits else None
        if done is not None and self.text == done.edit.after:
            old, new = lines(before), lines(self.text)
            first, last = done.replaced
            assert old[first - 1 : last] == rows[start - 1 : end]
            assert [content(line) for line in new[: first - 1]] == [content(line) for line in old[: first - 1]]
            assert [content(line) for line in new[done.end_line :]] == [content(line) for line in old[last:]]
        assert file_tag(self.text) == (done.edit.after_tag if done is not None else file_tag(before))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(starts, steps, st.fixed_dictionaries({"is_open": st.booleans(), "strict": st.booleans()}))
def test_no_keystroke_is_lost_and_no_edit_lands_elsewhere(rooms, tmp_path_factory, text, plan, how):
    async def play():
        room = rooms(tmp_path_factory.mktemp("race").resolve())
        if how["strict"]:
            room.settings["edits"] = {"guard": "strict"}
        race = Race(room, text, how["is_open"])
        await room.run("read", path="a", whole=True)
        seen = race.text
        for step, where, size in plan:
            if step in ("type", "delete"):
                race.change(where, size if step == "delete" else 0)
            elif step == "read":
                await room.run("read", path="a", whole=True)
                seen = race.text
            else:
                await race.edit(seen, where, size, typing=step != "edit")

    asyncio.run(play())
