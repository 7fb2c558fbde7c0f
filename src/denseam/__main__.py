"""Run the program by `python -m denseam`."""

import sys

from denseam.cli import main

sys.exit(main())
