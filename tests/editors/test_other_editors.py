"""The configurations on ``docs/editors.md``: each snippet parses, and names what exists."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.protocol.commands import COMMANDS
from ds4_lsp.protocol.settings import Settings

from .test_neovim import neovim

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "editors.md").read_text()
SNIPPETS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MODEL = "/path/to/model.gguf"


def snippets(language: str) -> list[str]:
    found = [text for name, text in SNIPPETS if name == language]
    assert found, f"the page has no {language}"
    return found


def settings(section: dict[str, Any]) -> Settings:
    """The settings as the server reads them; a key that does not exist is an error here."""
    read = Settings.model_validate(section)
    unknown = [path for path in leaves(section) if path not in leaves(read.model_dump(by_alias=True))]
    assert not unknown
    return read


def leaves(section: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, value in section.items():
        found += leaves(value, f"{before}{name}.") if isinstance(value, dict) else [before + name]
    return found


def elisp(text: str) -> list[Any]:
    """Lists, strings and symbols of Emacs Lisp. Raises where a list or a string does not end."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|;[^\n]*|[()]|[^\s()";]+|"', text)
    depth: list[list[Any]] = [[]]
    for token in tokens:
        assert token != '"', "a string that does not end"
        if token == "(":
            depth.append([])
        elif token == ")":
            assert len(depth) > 1, "a list that does not begin"
            depth[-2].append(depth.pop())
        elif not token.startswith(";"):
            depth[-1].append(token)
    assert len(depth) == 1, "a list that does not end"
    return depth[0]


def inside(tree: Any) -> Iterator[Any]:
    yield tree
    if isinstance(tree, list):
        for item in tree:
            yield from inside(item)


def test_every_snippet_is_of_a_language_that_is_checked() -> None:
    assert {language for language, _ in SNIPPETS} == {"toml", "elisp", "kak", "json", "lua"}


def test_helix_s_table_starts_the_server_and_has_only_real_settings() -> None:
    [text] = snippets("toml")
    table = tomllib.loads(text)
    server = table["language-server"]["ds4"]
    assert server["command"] == "ds4-lsp"
    read = settings(server["config"])
    assert str(read.model.path) == MODEL
    assert read.permissions.bash_allow
    assert all(language["language-servers"][-1] == "ds4" for language in table["language"])


def test_emacs_s_forms_are_whole_and_send_a_real_command() -> None:
    [text] = snippets("elisp")
    tree = elisp(text)
    values = [":ds4", [":model", [":path", f'"{MODEL}"']]]
    assert ["setq-default", "eglot-workspace-configuration", "'", values] in list(inside(tree))
    named = [item.strip('"') for item in inside(tree) if isinstance(item, str) and item.startswith('"ds4.')]
    assert named
    assert set(named) <= set(COMMANDS)
    assert '"ds4-lsp"' in list(inside(tree))


def test_kakoune_s_server_is_a_table_with_real_settings_and_its_command_exists() -> None:
    [text] = snippets("kak")
    assert text.count("{") == text.count("}")
    option = re.search(r"lsp_servers %\{(.*?)\n    \}", text, re.DOTALL)
    assert option is not None
    [server] = tomllib.loads(option[1]).values()
    assert server["command"] == "ds4-lsp"
    assert str(settings(server["settings"][server["settings_section"]]).model.path) == MODEL
    command = re.search(r"lsp-execute-command (\S+)", text)
    assert command is not None
    assert command[1] in COMMANDS


def test_kakoune_s_command_makes_json_of_any_text() -> None:
    [text] = snippets("kak")
    script = re.search(r"evaluate-commands %sh\{(.*?)\n    \}", text, re.DOTALL)
    assert script is not None
    prompt = 'say "yes", don\'t write C:\\new é'
    ran = subprocess.run(["sh", "-c", script[1], "sh", *prompt.split()], check=True, stdout=subprocess.PIPE, text=True)
    arguments = re.fullmatch(r"lsp-execute-command ds4\.prompt '(.*)'\n", ran.stdout)
    assert arguments is not None
    assert json.loads(arguments[1].replace("''", "'")) == [{"text": prompt, "wait": False}]


def test_sublime_s_settings_and_commands_are_real() -> None:
    client_text, command_text = snippets("json")
    client = json.loads(client_text)["clients"]["ds4"]
    assert client["command"] == ["ds4-lsp"]
    assert str(settings(client["initializationOptions"]).model.path) == MODEL
    for name, value in client["settings"].items():
        section: Any = value
        for part in reversed(name.removeprefix("ds4.").split(".")):
            section = {part: section}
        settings(section)
    for entry in json.loads(command_text):
        arguments = entry["args"]
        assert arguments["session_name"] == "ds4"
        COMMANDS[arguments["command_name"]].arguments.model_validate(arguments["command_args"][0])


def test_neovim_s_lines_run(tmp_path: Path) -> None:
    [text] = snippets("lua")
    script = tmp_path / "init.lua"
    script.write_text(
        f"{text}\nassert(vim.lsp.is_enabled('ds4'))\n"
        "assert(vim.lsp.config.ds4.cmd[1] == 'ds4-lsp')\n"
        f"assert(vim.lsp.config.ds4.settings.ds4.model.path == '{MODEL}')\n"
    )
    ran = subprocess.run(
        [neovim(), "--clean", "--headless", "-l", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+\.md)\)", PAGE))
def test_the_page_s_links_lead_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
