from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsp_client import GUARDED, PLAIN

from ds4_lsp.server.capabilities import server_capabilities
from ds4_lsp.server.client import Client, choose_encoding, read

KEYS = """
    capabilities workspace workspaceEdit textDocument codeAction tagSupport valueSet experimental ds4 events
    processId clientInfo name workspaceFolders rootUri general positionEncodings trace resourceOperations
"""
keys = st.sampled_from(KEYS.split())
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(keys, anything))
@settings(deadline=None)
def test_whatever_a_client_sends_is_read(params: dict[str, Any]) -> None:
    assert server_capabilities(read(params))["positionEncoding"] in {"utf-8", "utf-16", "utf-32"}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "utf-16"),
        ([], "utf-16"),
        ("utf-8", "utf-16"),
        (["utf-7"], "utf-16"),
        (["utf-7", "utf-32", "utf-8"], "utf-32"),
        (["utf-8", "utf-16"], "utf-8"),
    ],
)
def test_the_clients_first_known_position_encoding_is_chosen(offered: Any, chosen: str) -> None:
    assert choose_encoding(offered) == chosen


def test_what_is_not_announced_is_off() -> None:
    assert read({}) == Client()


def test_what_is_announced_is_on() -> None:
    plain, guarded = read({"capabilities": PLAIN}), read({"capabilities": GUARDED, "processId": 7})
    assert (plain.events, plain.guarded_apply, plain.annotations, plain.progress) == (False, False, False, True)
    assert (guarded.events, guarded.guarded_apply, guarded.save_document, guarded.annotations) == (True,) * 4
    assert (guarded.create_files, guarded.process_id) == (True, 7)


def test_an_old_client_has_a_root_instead_of_folders() -> None:
    assert read({"rootUri": "file:///a"}).folders == ("file:///a",)
    assert read({"rootUri": "file:///a", "workspaceFolders": [{"uri": "file:///b"}]}).folders == ("file:///b",)
    assert read({"workspaceFolders": None}).folders == ()
