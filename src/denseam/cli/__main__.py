"""Run the program by `python -m denseam.cli`."""

import sys

from denseam.cli.program import main

sys.exit(main())
