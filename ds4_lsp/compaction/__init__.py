"""Replaces older conversation by a checkpoint, as a transaction on the log.

Knows nothing of the engine, of files or of clients: it decides on token counts, asks its :class:`~.host.Host`, and
appends to the log. The agent owns one :class:`Compactions` per session and says when.
"""

from ds4_lsp.compaction.compactions import Compactions
from ds4_lsp.compaction.host import Host, OnSummary
from ds4_lsp.compaction.ledger import Facts, jobs_notice
from ds4_lsp.compaction.model import (
    Compacted,
    Failed,
    Item,
    Nothing,
    Outcome,
    Pruned,
    PruneResult,
    Shortened,
    Speeds,
    Summary,
    SummaryRequest,
    Trigger,
)
from ds4_lsp.compaction.summarise import request_tokens
from ds4_lsp.compaction.transaction import compact

__all__ = [
    "Compacted",
    "Compactions",
    "Facts",
    "Failed",
    "Host",
    "Item",
    "Nothing",
    "OnSummary",
    "Outcome",
    "PruneResult",
    "Pruned",
    "Shortened",
    "Speeds",
    "Summary",
    "SummaryRequest",
    "Trigger",
    "compact",
    "jobs_notice",
    "request_tokens",
]
