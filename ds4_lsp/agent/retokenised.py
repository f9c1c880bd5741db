"""Replies that another model sampled: their stored ids mean nothing here, so their text is tokenised anew."""

from __future__ import annotations

import logging

from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.transcript import Transcript, tokenizer_name
from ds4_lsp.protocol.errors import StorageFailed

log = logging.getLogger(__name__)


def tell(services: Services, runtime: Runtime, transcript: Transcript) -> None:
    """Log it and tell the user: once for a session and a tokenizer, until another one had its turn. Never raises."""
    replies, transcript.retokenised = transcript.retokenised, 0
    tokenizer = tokenizer_name(transcript.info)
    if not replies or runtime.session.state.retokenised == tokenizer:
        return
    data = {"tokenizer": tokenizer, "replies": replies}
    try:
        # Older versions can do without it.
        runtime.session.append("session/retokenised", data, ignorable=True)
    except StorageFailed as error:
        log.warning("not logged that %d replies were tokenised anew: %s", replies, error)
    which = "1 reply" if replies == 1 else f"{replies} replies"
    services.listener.message(
        "info",
        f"DS4: {which} of this session came from another model. {transcript.info.name} reads the text of it, tokenised "
        "anew: what precedes is evaluated again, and no KV snapshot of that model serves.",
    )
