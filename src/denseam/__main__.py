"""Run the program with `python -m denseam`."""

import sys

from denseam.cli import main

sys.exit(main())
