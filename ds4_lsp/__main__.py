"""``python -m ds4_lsp`` is ``ds4-lsp``."""

import sys

from ds4_lsp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
