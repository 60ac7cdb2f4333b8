"""``python -m gpuens``: train, apply and describe models of tables in files."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
