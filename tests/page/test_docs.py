"""The documentation that `make docs` has built, in a real Chromium without a network."""

import pytest

from tests import ROOT

BUILT = ROOT / "docs" / "_build" / "html"
PAGES = [
    "index",
    "mathematics",
    "energy",
    "store-and-recall",
    "tutorials/transfer",
    "tutorials/own-lagrangian",
]

pytestmark = pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="make docs builds the pages")


@pytest.fixture(params=PAGES)
def page(request, browser):
    """A page on a narrow screen, offline; at the end, nothing was asked of the network."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
    shown = context.new_page()
    outside = []
    shown.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:")) else outside.append(asked.url),
    )
    shown.goto((BUILT / f"{request.param}.html").as_uri())
    shown.evaluate("document.fonts.ready")
    yield shown
    context.close()
    assert outside == []


def test_formulas_are_drawn_without_a_network(page):
    boxes = page.eval_on_selector_all(
        "math", "all => all.map(m => [m.getBoundingClientRect().width, m.getBoundingClientRect().height])"
    )
    assert boxes
    assert all(width > 2 and height > 4 for width, height in boxes)
    assert page.evaluate('document.fonts.check("16px \\"STIX Two Math\\"")')
    loaded = "[...document.fonts].filter(f => f.family.includes('STIX') && f.status == 'loaded').length"
    assert page.evaluate(loaded) == 1
    assert page.locator("article").inner_text().count("\\top") == 0


def test_a_narrow_page_does_not_scroll_sideways(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
