import os
import shutil

import pytest
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="session")
def browser():
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert program, "Chromium is missing: apt-get install chromium, or set CHROMIUM"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
