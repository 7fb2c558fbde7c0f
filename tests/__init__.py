"""Tests: `unit` mirrors the source; `torch`, `mesh`, `cluster` and `page` need what their names say."""

from pathlib import Path

from tests import shapes as shapes  # the checker of annotations is found by this name (pyproject.toml)

ROOT = Path(__file__).parent.parent
