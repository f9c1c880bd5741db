"""File URIs: one canonical form to compare by, and the way between URIs and paths.

Editors spell one file in several ways: ``file:///c%3A/x`` and ``file:///C:/x``, ``%7E`` and ``~``, a slash at the end.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

_DRIVE = re.compile(rb"/([A-Za-z]):(?=/|$)")
_SAFE = "/:@!$&'()*+,;="
"""Characters that RFC 3986 lets a path hold as they are, besides the unreserved ones."""


def canonical(uri: str) -> str:
    """The form of a URI to compare by. Other schemes than ``file`` keep their text."""
    raw = _raw_path(uri)
    if raw is None:
        return uri
    authority, path = raw
    trimmed = path.rstrip(b"/") or b"/"
    if re.fullmatch(rb"/[A-Za-z]:", trimmed):
        trimmed += b"/"
    trimmed = _DRIVE.sub(lambda found: b"/" + found[1].lower() + b":", trimmed, count=1)
    return f"file://{authority}{quote_from_bytes(trimmed, safe=_SAFE)}"


def to_path(uri: str) -> Path | None:
    """The path that a ``file`` URI names, as it is spelled; None for another scheme, a remote host, or a NUL in it."""
    raw = _raw_path(uri)
    if raw is None or raw[0] or b"\0" in raw[1]:
        return None
    path = raw[1]
    if os.name == "nt":
        path = path.lstrip(b"/")
    return Path(os.fsdecode(path))


def from_path(path: Path) -> str:
    """The canonical URI of an absolute path."""
    raw = os.fsencode(path.as_posix())
    return canonical("file://" + quote_from_bytes(raw if raw.startswith(b"/") else b"/" + raw, safe=_SAFE))


def _raw_path(uri: str) -> tuple[str, bytes] | None:
    """Authority (empty for this machine) and percent-decoded path of a ``file`` URI. Never raises."""
    if uri[:5].lower() != "file:":
        return None
    # Files have no query and no fragment: a raw "?" or "#" is a slip for a character of the name.
    rest = uri[5:]
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if not rest.startswith("/"):
        rest = "/" + rest
    authority = authority.lower()
    return ("" if authority == "localhost" else authority), unquote_to_bytes(rest.encode("utf-8", "surrogatepass"))
