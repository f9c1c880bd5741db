from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from lsp_client import PLAIN

from ds4_lsp.agent.speech import TEMPLATE
from ds4_lsp.protocol.schema import settings_fields
from ds4_lsp.protocol.settings import Settings
from ds4_lsp.server.settings import Sources, explicit, merge, parse, section_of
from ds4_lsp.syntax.registry import NAMES

VALID = {
    "model": {"path": "/m.gguf", "contextSize": 4096, "rpcServers": ["h:1"], "threads": 2},
    "sampling": {"temperature": 0, "seed": 7},
    "thinking": "off",
    "permissions": {"bash": "allow", "bashAllow": ["git status"]},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from([*Settings.model_json_schema()["properties"], "contextSize", "path", "nonsense"])


def test_valid_settings_are_taken_without_a_word() -> None:
    found, problems = parse(VALID)
    assert problems == []
    assert (found.model.path, found.model.context_size, found.model.threads) == ("/m.gguf", 4096, 2)
    assert (found.sampling.temperature, found.thinking, found.permissions.bash_allow) == (0, "off", ["git status"])
    assert "model.contextSize" in explicit(found)
    assert "model.batchSize" not in explicit(found)


def test_one_bad_value_costs_its_siblings_nothing() -> None:
    raw = merge(VALID, {"model": {"contextSize": "big", "gpuLayers": -9}, "thinking": "maybe", "colour": 1})
    found, problems = parse(raw)
    assert {problem.key: (problem.value, problem.used) for problem in problems} == {
        "model.contextSize": ("big", 32768),
        "model.gpuLayers": (-9, -1),
        "thinking": ("maybe", "on"),
        "colour": (1, None),
    }
    assert found.model.path == "/m.gguf"
    assert found.model.context_size == 32768
    assert "model.contextSize" not in explicit(found)
    told = [str(problem) for problem in problems]
    assert any("ds4.model.contextSize" in text and '"big"' in text and "32768" in text for text in told)


def test_a_setting_s_old_name_still_works_with_a_notice() -> None:
    found, [problem] = parse({"dsml": {"grammar": False}})
    assert not found.tools.grammar
    assert "tools.grammar" in explicit(found)
    assert str(problem) == "ds4-lsp: the setting ds4.dsml.grammar is called ds4.tools.grammar now: please rename it."
    # Some editors send every default of the new one.
    found, [_] = parse({"dsml": {"grammar": False}, "tools": {"grammar": True, "syntax": "dsml"}})
    assert (found.tools.grammar, found.tools.syntax) == (False, "dsml")
    found, [_] = parse({"dsml": {"grammar": True}, "tools": {"grammar": False}})
    assert not found.tools.grammar
    found, problems = parse({"dsml": {"grammar": "maybe", "more": 1}})
    assert found.tools.grammar
    assert {problem.key for problem in problems} == {"dsml.grammar", "tools.grammar", "dsml"}


def test_every_sampling_key_may_be_null_and_levels_of_thinking_are_known() -> None:
    names = ["temperature", "topP", "minP", "topK", "repeatPenalty", "seed", "maxTokens"]
    found, problems = parse({"sampling": dict.fromkeys(names)})
    assert (problems, found) == ([], Settings())
    assert found.sampling.most_tokens == 50000
    for level in ("off", "on", "low", "medium", "high", "max"):
        found, problems = parse({"thinking": level})
        assert (found.thinking, found.thinks, problems) == (level, level != "off", [])


def test_the_syntaxes_are_those_of_the_registry() -> None:
    for name in (*NAMES, TEMPLATE):
        assert parse({"tools": {"syntax": name}})[1] == []
    found, [problem] = parse({"tools": {"syntax": "yaml"}})
    assert (found.tools.syntax, problem.key) == ("auto", "tools.syntax")
    assert all(repr(name) in problem.reason for name in NAMES)


def test_a_place_for_sessions_does_not_depend_on_where_the_server_runs() -> None:
    for directory in ("/var/sessions", "~/sessions"):
        found, problems = parse({"sessions": {"directory": directory}})
        assert (found.sessions.directory, problems) == (directory, [])
    found, [problem] = parse({"sessions": {"directory": "sessions"}})
    assert found.sessions.directory is None
    assert "must be an absolute path, or begin with ~" in str(problem)


def test_every_default_sent_back_counts_as_nothing_given() -> None:
    found, problems = parse(Settings().model_dump(by_alias=True))
    assert (found, problems, explicit(found)) == (Settings(), [], frozenset())


@given(st.dictionaries(names, json_values | st.dictionaries(names, json_values, max_size=4), max_size=5))
@settings(deadline=None)
def test_whatever_is_sent_gives_settings_and_names_what_was_wrong(raw: dict[str, Any]) -> None:
    found, problems = parse(raw)
    assert Settings.model_validate(found.model_dump()) == found
    known = {key for key, _ in settings_fields(Settings)}
    for problem in problems:
        assert problem.unknown == (problem.key not in known and problem.key not in Settings().model_dump())
        assert problem.key in str(problem)
    kept = merge(Settings().model_dump(by_alias=True), json.loads(found.model_dump_json(by_alias=True)))
    assert parse(kept)[0] == found


def test_a_problem_is_told_once_and_again_after_it_was_gone() -> None:
    sources = Sources(options={"colour": 1})
    assert len(sources.settings()[1]) == 1
    assert sources.settings()[1] == []
    sources.options = {}
    assert sources.settings()[1] == []
    sources.options = {"colour": 1}
    assert len(sources.settings()[1]) == 1


def test_later_sources_win_and_the_command_line_wins_over_all() -> None:
    sources = Sources(options={"ds4": {"thinking": "off", "model": {"path": "/a", "batchSize": 64}}})
    sources.configuration = {"model": {"path": "/b"}}
    found, _ = sources.settings()
    assert (found.thinking, found.model.path, found.model.batch_size) == ("off", "/b", 64)
    sources.model_path = "/c"
    assert sources.settings()[0].model.path == "/c"
    assert section_of({"ds4": {"a": 1}}) == {"a": 1}


async def test_settings_follow_the_client(start: Any) -> None:
    async def current() -> Any:
        return json.loads((await client.run("ds4.prompt", {"text": "settings"}))["text"])

    client = await start("--model", "/from/the/command/line.gguf")
    configured: dict[str, Any] = {"sampling": {"topP": 0.5}, "edits": {"guard": "lenient"}}
    client.handlers["workspace/configuration"] = lambda _params: [configured]
    capabilities = PLAIN | {
        "workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}}
    }
    options = {"thinking": "off", "model": {"path": "/from/options.gguf", "contextSize": 1000}, "fancy": True}
    await client.initialize(capabilities, initializationOptions=options)
    found = await current()
    assert found["thinking"] == "off"
    assert found["sampling"]["topP"] == 0.5
    assert found["edits"]["guard"] == "rebase"
    assert found["model"]["path"] == "/from/the/command/line.gguf"
    assert found["contextIsDefault"] is False
    warnings = [message["message"] for message in client.notifications("window/showMessage")]
    assert len(warnings) == 2
    assert any("ds4.edits.guard" in text and "lenient" in text and "rebase" in text for text in warnings)
    assert any("ds4.fancy" in text for text in warnings)
    [registered] = (await client.wait_for("client/registerCapability"))["registrations"]
    assert registered["method"] == "workspace/didChangeConfiguration"

    client.notify("workspace/didChangeConfiguration", {"settings": {"ds4": {"sampling": {"seed": 5}}}})
    await client.wait_for("window/showMessage", lambda message: message["message"] == "settings updated")
    found = await current()
    assert (found["sampling"]["seed"], found["sampling"]["topP"], found["thinking"]) == (5, None, "off")

    configured = {"thinking": "on"}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    await client.wait(lambda: len(client.notifications("window/showMessage")) == 4)
    assert (await current())["thinking"] == "on"


async def test_a_client_that_never_answers_the_configuration_does_not_stop_the_agent(start: Any) -> None:
    import asyncio

    client = await start()
    client.handlers["workspace/configuration"] = lambda _params: asyncio.Event().wait()
    await client.initialize(PLAIN | {"workspace": {"configuration": True}}, initializationOptions={"thinking": "off"})
    found = json.loads((await client.run("ds4.prompt", {"text": "settings"}))["text"])
    assert (found["thinking"], found["contextIsDefault"]) == ("off", True)


async def test_the_environment_names_a_model(start: Any) -> None:
    client = await start(env={"DS4_MODEL": "/from/env.gguf"})
    await client.initialize(initializationOptions={"model": {"path": "/from/options.gguf"}})
    assert (
        json.loads((await client.run("ds4.prompt", {"text": "settings"}))["text"])["model"]["path"] == "/from/env.gguf"
    )
