"""Files from the model hub. ``huggingface-hub`` (the extra ``hub``) knows endpoint, token and metadata; the bytes are
fetched here, since its own download starts from zero in each process and these files are large."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from ds4_lsp import __version__
from ds4_lsp.cli.catalogue import HubFiles
from ds4_lsp.protocol.errors import NotFound, StorageFailed

CHUNK = 1 << 20
TIMEOUT = 30.0
"""Seconds without a byte before a connection counts as lost."""


@dataclass(frozen=True)
class Downloaded:
    """A complete file. ``sha256`` is what the hub publishes for it, None where it publishes none."""

    path: Path
    size: int
    sha256: str | None


@dataclass(frozen=True)
class _Remote:
    url: str
    headers: dict[str, str]
    size: int
    etag: str


def download_file(files: HubFiles, name: str, folder: Path, on_bytes: Callable[[int, int], None]) -> Downloaded:
    """Download one file into ``folder``, going on with what an earlier try left there.

    A lost connection is taken up again as long as each try brings bytes. Errors: ``NotFound``, ``StorageFailed``.
    """
    remote = _look_up(files, name)
    path = folder / f"{remote.etag}.part"
    while True:
        have = path.stat().st_size if path.exists() else 0
        if have >= remote.size:
            break
        on_bytes(have, remote.size)
        lost = _continue(remote, path, have, on_bytes)
        if lost is not None and path.stat().st_size <= have:
            raise NotFound(
                f"the download of {name} was interrupted at {have} of {remote.size} bytes: {lost}. Try again."
            )
    on_bytes(remote.size, remote.size)
    sha256 = remote.etag if re.fullmatch(r"[0-9a-f]{64}", remote.etag) else None
    return Downloaded(path, remote.size, sha256)


def _look_up(files: HubFiles, name: str) -> _Remote:
    try:
        from huggingface_hub import get_hf_file_metadata, get_token, hf_hub_url
    except ImportError:
        raise NotFound("the model hub needs the package huggingface-hub: pip install huggingface-hub") from None
    url = hf_hub_url(files.repository, name, revision=files.revision)
    try:
        found = get_hf_file_metadata(url)
    except Exception as error:  # its errors come from several libraries; each says what is wrong
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise NotFound(f"{files.repository}/{name} cannot be found on the model hub: {message[0]}") from error
    if found.size is None or not found.etag:
        raise NotFound(f"the model hub gives no size or hash for {files.repository}/{name}")
    location = urljoin(url, found.location)
    headers = {"user-agent": f"ds4-lsp/{__version__}"}
    if (token := get_token()) and urlsplit(location).netloc == urlsplit(url).netloc:
        headers["authorization"] = f"Bearer {token}"  # a storage's address elsewhere carries its own permission
    return _Remote(location, headers, found.size, re.sub(r"[^0-9A-Za-z-]", "", found.etag))


def _continue(remote: _Remote, path: Path, have: int, on_bytes: Callable[[int, int], None]) -> str | None:
    """Append from byte ``have`` on; returns why it ended early, None when the server sent all it announced."""
    headers = {**remote.headers, "accept-encoding": "identity"}
    if have:
        headers["range"] = f"bytes={have}-"
    try:
        with urllib.request.urlopen(urllib.request.Request(remote.url, headers=headers), timeout=TIMEOUT) as reply:
            if have and reply.status != 206:
                have = 0
            with path.open("r+b" if have else "wb") as file:
                file.seek(have)
                file.truncate()
                while chunk := reply.read(CHUNK):
                    if have + len(chunk) > remote.size:
                        raise StorageFailed(f"the server sent more than the {remote.size} bytes it announced")
                    file.write(chunk)
                    have += len(chunk)
                    on_bytes(have, remote.size)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        path.touch()
        return str(error)
    return None if have == remote.size else "the connection was closed"
