"""A path that a user wrote, made absolute."""

from __future__ import annotations

import os
from pathlib import Path

from ds4_lsp.protocol.errors import InvalidRequest, ModelLoadFailed


def absolute(path: Path) -> Path:
    """``path`` from ``~`` and from the current folder. Raises ``InvalidRequest`` where nothing can be there."""
    reason = _unusable(path)
    if reason is not None:
        raise InvalidRequest(f"{str(path)!r} {reason}")
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise InvalidRequest(f"{str(path)!r} begins in a home folder that is not known") from None
    except OSError as error:
        raise InvalidRequest(f"{str(path)!r} cannot be found from the current folder: {error.strerror}") from None


def model_file(path: Path) -> Path:
    """The same for the model that the user chose. Raises ``ModelLoadFailed``."""
    try:
        return absolute(path)
    except InvalidRequest as error:
        raise ModelLoadFailed(f"{error.message}: set model.path to the absolute path of a GGUF file") from None


def _unusable(path: Path) -> str | None:
    """Why the system cannot even be asked about it."""
    try:
        return "holds a NUL character" if b"\0" in os.fsencode(path) else None
    except UnicodeError:
        return "is no Unicode text"
