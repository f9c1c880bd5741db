from __future__ import annotations

from typing import Any

from lsp_client import GUARDED, PLAIN
from lsprotocol import types

from ds4_lsp.protocol.commands import PromptArguments
from ds4_lsp.server.actions import code_actions, describe
from ds4_lsp.server.client import Client

DIAGNOSTIC = types.Diagnostic(
    range=types.Range(types.Position(3, 1), types.Position(3, 9)),
    message="undefined name 'x'",
    source="ruff",
    code="F821",
)


def actions(
    client: Client, *, empty: bool = False, only: Any = None, automatic: bool = False, diagnostics: Any = (DIAGNOSTIC,)
) -> list[dict[str, Any]]:
    trigger = types.CodeActionTriggerKind.Automatic if automatic else types.CodeActionTriggerKind.Invoked
    end = types.Position(0, 0) if empty else types.Position(5, 0)
    context = types.CodeActionContext(diagnostics=list(diagnostics), only=only, trigger_kind=trigger)
    place = types.Range(types.Position(0, 0), end)
    return code_actions(types.CodeActionParams(types.TextDocumentIdentifier("file:///a"), place, context), client)


def test_every_action_is_a_valid_prompt_about_its_place() -> None:
    found = actions(Client(action_literals=True))
    assert [action["title"] for action in found] == [
        "DS4: Fix this problem",
        "DS4: Edit as the comments here ask",
        "DS4: Explain",
    ]
    for action in found:
        assert action["command"]["command"] == "ds4.prompt"
        [argument] = action["command"]["arguments"]
        assert PromptArguments.model_validate(argument).context[0].uri == "file:///a"
    [fix, *_] = found
    assert fix["command"]["arguments"][0]["context"][0]["diagnostic"] == "ruff(F821): undefined name 'x'"
    assert fix["command"]["arguments"][0]["context"][0]["range"]["start"] == {"line": 3, "character": 1}


def test_the_bulb_stays_dark_where_nothing_is_selected_or_wrong() -> None:
    client = Client(action_literals=True)
    assert actions(client, empty=True, automatic=True, diagnostics=()) == []
    assert len(actions(client, empty=True, automatic=True)) == 1
    assert len(actions(client, empty=True, diagnostics=())) == 2


def test_only_the_kinds_asked_for_come() -> None:
    client = Client(action_literals=True)
    assert [action["kind"] for action in actions(client, only=["quickfix"])] == ["quickfix.ds4"]
    assert [action["kind"] for action in actions(client, only=[types.CodeActionKind.Refactor])] == [
        "refactor.rewrite.ds4"
    ]
    assert actions(client, only=["source.organizeImports"]) == []
    assert len(actions(client, only=[""])) == 3


def test_they_are_tagged_as_machine_generated_where_the_client_knows_the_tag() -> None:
    assert all(action["tags"] == [1] for action in actions(Client(action_literals=True, action_tags=True)))
    assert all("tags" not in action for action in actions(Client(action_literals=True)))


def test_a_client_without_literals_gets_commands() -> None:
    assert {command["command"] for command in actions(Client())} == {"ds4.prompt"}


def test_a_client_that_can_ask_for_an_instruction_does() -> None:
    found = actions(Client(action_literals=True, edit_command="ds4.editHere"))
    assert found[1]["title"] == "DS4: Edit with a prompt…"
    assert found[1]["command"]["command"] == "ds4.editHere"
    assert found[1]["command"]["arguments"][0]["uri"] == "file:///a"


def test_a_diagnostic_is_described_by_what_it_has() -> None:
    assert describe(types.Diagnostic(range=DIAGNOSTIC.range, message="m")) == "m"
    assert describe(types.Diagnostic(range=DIAGNOSTIC.range, message="m", source="s")) == "s: m"


async def test_an_action_runs_by_its_command_in_a_plain_editor(connect: Any) -> None:
    client = await connect(PLAIN)
    params = {
        "textDocument": {"uri": "file:///a"},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}},
        "context": {
            "diagnostics": [
                {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "message": "m"}
            ]
        },
    }
    found = await client.request("textDocument/codeAction", params)
    assert [action["title"][:5] for action in found] == ["DS4: "] * 3
    assert found[0]["diagnostics"] == params["context"]["diagnostics"]
    command = found[0]["command"]
    command["arguments"][0]["text"] = "say done"
    assert (await client.run(command["command"], *command["arguments"]))["turn"] == 1
    assert (await client.wait_for("window/showMessage"))["message"] == "done"


async def test_the_plugins_command_is_used_where_announced(connect: Any) -> None:
    announced = GUARDED | {"experimental": {"ds4": {"editCommand": "my.edit"}}}
    client = await connect(announced)
    params = {
        "textDocument": {"uri": "file:///a"},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}},
        "context": {"diagnostics": [], "only": ["refactor"]},
    }
    [action] = await client.request("textDocument/codeAction", params)
    assert action["command"]["command"] == "my.edit"
