from __future__ import annotations

import re

from ds4_lsp.protocol import errors
from ds4_lsp.protocol.schema import error_codes

CONTRACT = """
    busy noModel modelLoad notFound ambiguous staleFileTag notApplied outsideWorkspace denied contextTooSmall
    sessionLocked corruptSession cancelled
"""


def test_every_branch_of_the_tree_has_a_code_of_its_own_and_is_in_the_docstring() -> None:
    branches = errors.Ds4Error.__subclasses__()
    assert len({kind.code for kind in branches}) == len(branches)
    listed = dict(re.findall(r"── (\w+) +(\w+) +\S", errors.__doc__ or ""))
    assert listed == {kind.__name__: kind.code for kind in branches}


def test_the_contracts_codes_are_all_there() -> None:
    assert set(CONTRACT.split()) <= set(error_codes())
