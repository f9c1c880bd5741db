import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.uris import canonical, from_path, to_path


@pytest.mark.parametrize(
    "spellings",
    [
        ("file:///c%3A/x", "file:///c:/x", "file:///C:/x", "file:///C%3a/x/"),
        ("file:///home/a%20b", "FILE:///home/a%20b/", "file://localhost/home/a%20b", "file:/home/a b"),
        ("file:///srv/%7Euser/%2B", "file:///srv/~user/+"),
        ("file:///caf%C3%A9", "file:///café", "file:///caf%c3%a9"),
        ("file:///a%23b%3F", "file:///a#b?"),
        ("file:///", "file://"),
    ],
)
def test_spellings_of_one_file_have_one_canonical_form(spellings):
    assert len({canonical(uri) for uri in spellings}) == 1


def test_different_files_stay_different():
    names = ["file:///a", "file:///A", "file:///a%2520", "file:///a%20", "file://host/a", "untitled:a"]
    assert len({canonical(uri) for uri in names}) == len(names)


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "ds4:/session/1", "vscode-remote://ssh/x", "file://server/x", "file:///%00"]
)
def test_what_is_no_local_file_has_no_path(uri):
    assert to_path(uri) is None


@settings(deadline=None, max_examples=80)
@given(st.text(st.sampled_from("file:/\ud800\udcff\0%0aé?#.") | st.characters()).map(lambda rest: "file:" + rest))
def test_any_uri_has_a_canonical_form_and_a_path_or_none(uri):
    assert canonical(canonical(uri)) == canonical(uri)
    path = to_path(uri)
    if path is not None:
        # What a file system can be asked for.
        os.path.lexists(path)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=4))
def test_every_path_survives_its_uri(parts):
    names = [part.replace(b"/", b"_").replace(b"\0", b"_") for part in parts]
    path = Path("/" + os.fsdecode(b"/".join(name for name in names if name not in {b".", b".."})))
    uri = from_path(path)
    assert uri.isascii()
    assert canonical(uri) == uri
    # A directory like "/C:" is one the canonical form folds: drive letters have no case.
    if ":" not in str(path):
        assert to_path(uri) == path
