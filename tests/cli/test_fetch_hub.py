"""Fetching from the model hub: the real huggingface-hub in a process of its own, against a server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CONTENT = b"GGUF" + os.urandom(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()

FETCH = """
import sys
from pathlib import Path
from ds4_lsp.cli.catalogue import Entry, HubFiles
from ds4_lsp.cli.fetch import fetch
from ds4_lsp.protocol.errors import Ds4Error
entry = Entry("m", "M", 3_000_004, "MIT", "", hub=HubFiles("owner/repo", tuple(sys.argv[2:])))
try:
    print(fetch(entry, Path(sys.argv[1]), on_bytes=lambda what, done, total: None))
except Ds4Error as error:
    sys.exit(f"{error.code}: {error.message}")
"""


@dataclass
class Hub:
    """What the server serves, how it misbehaves, and what it was asked."""

    address: str = ""
    content: bytes = CONTENT
    etag: str = SHA256
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    """Each of the next downloads ends after that many bytes."""
    asked: list[str | None] = field(default_factory=list)
    """The Range header of each download."""
    tokens: list[str | None] = field(default_factory=list)


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._head(200, len(state.content))

        def do_GET(self) -> None:
            if "/resolve/" in self.path:
                self._download()
            else:  # a question of the library's own
                self._head(404, 0)

        def _download(self) -> None:
            wanted = self.headers["Range"]
            state.asked.append(wanted)
            state.tokens.append(self.headers["Authorization"])
            found = re.fullmatch(r"bytes=(\d+)-", wanted or "")
            start = int(found[1]) if found and state.ranges else 0
            body = state.content[start:]
            self._head(206 if start else 200, len(body))
            self.wfile.write(body[: state.cuts.pop(0)] if state.cuts else body)
            self.close_connection = True

        def _head(self, status: int, length: int) -> None:
            if "missing" in self.path:
                status, length = 404, 0
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.send_header("ETag", f'"{state.etag}"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        state.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield state
        server.shutdown()
        thread.join()


def fetch(hub: Hub, folder: Path, *names: str, token: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "NO_PROXY": "127.0.0.1", "HF_HOME": str(folder / "hf")}
    environment.pop("HF_HUB_OFFLINE", None)
    environment["HF_TOKEN"] = token
    command = [sys.executable, "-c", FETCH, str(folder / "models"), *(names or ("m.gguf",))]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_file_is_fetched_and_verified_against_the_published_hash(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path, token="secret")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == CONTENT
    assert hub.tokens == ["Bearer secret"]


def test_an_interrupted_download_goes_on_in_another_process(hub: Hub, tmp_path: Path) -> None:
    hub.cuts = [1_000_000, 0]
    first = fetch(hub, tmp_path)
    assert first.returncode != 0
    assert "interrupted at 1000000 of 3000004 bytes" in first.stderr
    second = fetch(hub, tmp_path)
    assert second.returncode == 0, second.stderr
    assert hub.asked == [None, "bytes=1000000-", "bytes=1000000-"]
    assert Path(second.stdout.strip()).read_bytes() == CONTENT


def test_a_lost_connection_is_taken_up_again_while_bytes_come(hub: Hub, tmp_path: Path) -> None:
    hub.cuts = [1_000_000, 500_000]
    done = fetch(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert hub.asked == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_server_without_ranges_is_read_from_the_start(hub: Hub, tmp_path: Path) -> None:
    hub.ranges, hub.cuts = False, [1_000_000, 0]
    assert fetch(hub, tmp_path).returncode != 0
    done = fetch(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == CONTENT


def test_content_that_is_not_what_was_published_is_removed(hub: Hub, tmp_path: Path) -> None:
    hub.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    done = fetch(hub, tmp_path)
    assert done.returncode != 0 and "SHA-256" in done.stderr
    assert not [path for path in (tmp_path / "models").rglob("*") if path.suffix in (".gguf", ".part")]


def test_a_file_without_a_published_hash_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.etag = "0123456789abcdef0123456789abcdef01234567"
    done = fetch(hub, tmp_path)
    assert done.returncode != 0 and "no SHA-256 is published" in done.stderr


def test_a_missing_file_is_named(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path, "missing.gguf")
    assert done.returncode != 0
    assert done.stderr.startswith("notFound: owner/repo/missing.gguf")


def test_all_files_of_a_split_model_are_fetched(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path, "a.gguf", "b.gguf")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "models").glob("*.gguf"))
    assert names == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
