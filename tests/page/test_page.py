"""The page of `denseam report` in a real Chromium, without a network."""

import itertools
import re

import pytest

from denseam.report.page import write_report
from denseam.studies.documents import to_document
from denseam.studies.store import Store
from tests.synthetic import rows, study

EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
# A grey pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6368000000820081"
    "dd436af40000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pages on two studies, one with probes that transfers and one that drifts; and on hostile names."""

    def made(name, *many, studies=(), picture=False):
        folder = tmp_path_factory.mktemp(name)
        store = Store(folder)
        store.prepare()
        for part in many:
            store.write(part)
        for one in studies:
            store.write_study(one.id, to_document(one))
        if picture:
            (folder / "recall.png").write_bytes(PNG)
        return write_report(folder).html

    probed = study(probes=("Z", "dF11"), probe_steps=(0, 1, 2, 4), name="probed")
    drifting = study(name="drifting", optimizer="adam")
    hostile = [r | {"data": EVIL, "device": EVIL} for r in rows(study(name=EVIL))]
    return {
        "two": made("two", rows(probed), rows(drifting, moves=0.4), studies=(probed, drifting), picture=True),
        "hostile": made("hostile", hostile),
    }


@pytest.fixture
def opened(browser, files):
    """Give a function that opens a page; at the end, nothing was asked for and nothing complained."""
    contexts, requests, complaints = [], [], []

    def open_page(name="two", **options):
        context = browser.new_context(
            **({"viewport": {"width": 1200, "height": 900}, "offline": True} | options)
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(files[name].as_uri())
        page.wait_for_selector(".plot svg")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert requests
    assert all(url.startswith(("file:", "data:")) for url in requests)


def block(page, kind, study=0):
    return page.locator(f"#study-{study} [data-block={kind}]")


def lines(part):
    return [line.get_attribute("d") for line in part.locator(".plot .line").all()]


def ticks(part):
    return part.locator(".plot text").all_text_contents()


def wait_until(page, condition):
    """Wait for a condition; what Playwright has for it runs `eval` in the page, which its policy forbids."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def test_it_opens_without_a_network_and_shows_the_verdict_first(opened):
    page = opened()
    assert page.title().endswith("denseam report")
    cards = page.locator(".card").all_inner_texts()
    assert len(cards) == 2
    assert "DRIFTS" in cards[0] or "FAILS" in cards[0]
    assert "TRANSFERS" in cards[1]
    first_card = page.locator(".card").first.bounding_box()
    assert first_card["y"] + first_card["height"] < 900, "on the first screen"
    assert page.locator(".plot svg").count() == 5, "two of each study, and the probes of one"
    assert page.locator("img").evaluate("image => image.complete && image.naturalWidth") == 1


def test_seeds_and_axes_can_be_toggled(opened):
    part = block(opened(), "transfer", 1)
    for name, changes in (("Seeds", ".seed"), ("Log x", "axis"), ("Log y", "axis")):
        button = part.get_by_role("button", name=name)
        assert button.get_attribute("aria-pressed") == "true"
        before = part.locator(".seed").first.get_attribute("d") if changes == ".seed" else ticks(part)
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        after = part.locator(".seed").first.get_attribute("d") if changes == ".seed" else ticks(part)
        assert before != after
        button.click()
        again = part.locator(".seed").first.get_attribute("d") if changes == ".seed" else ticks(part)
        assert again == before


def test_the_horizon_moves_curves_and_verdict(opened):
    page = opened()
    part, collapse = block(page, "transfer"), block(page, "collapse")
    slider = part.get_by_role("slider", name="Horizon")
    before, text = lines(part), part.locator(".now").inner_text()
    assert part.locator("output").inner_text() == "epoch 20 of 20"
    assert collapse.locator(".mark").count() == 0
    slider.focus()
    page.keyboard.press("Home")
    assert part.locator("output").inner_text() == "epoch 1 of 20"
    assert slider.get_attribute("aria-valuetext") == "epoch 1 of 20"
    assert lines(part) != before
    assert part.locator(".now").inner_text() != text
    assert part.locator(".now").get_attribute("aria-live") == "polite"
    assert "after epoch 1," in part.locator("caption").first.text_content()
    assert collapse.locator(".mark").count() == 1
    page.keyboard.press("End")
    assert lines(part) == before
    assert part.locator(".now").inner_text() == text


def test_pointing_at_a_run_says_what_it_is(opened):
    page = opened()
    part = block(page, "transfer", 1)
    tip, plot = part.locator(".tip"), part.locator(".plot")
    plot.scroll_into_view_if_needed()
    assert tip.is_hidden()
    ring = part.locator(".ring").first.bounding_box()
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    assert re.search(
        r"N = \d+, seed \d.*η₀ = .*loss 0\.\d+.*status: finished.*run [0-9a-f]{8}", tip.inner_text(), re.S
    )
    cross = part.locator(".cross").first.bounding_box()
    page.mouse.move(cross["x"] + cross["width"] - 3, cross["y"] + cross["height"] / 2)
    assert "status: diverged at step 5" in tip.inner_text()
    part.get_by_role("button", name="Seeds").click()
    ring = part.locator(".ring").first.bounding_box()
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    assert "mean of 3 seeds" in tip.inner_text()
    page.mouse.move(1, 1)
    assert tip.is_hidden()


def test_optima_the_transferred_value_and_divergences_are_marked(opened):
    part = block(opened(), "transfer", 1)
    assert part.locator(".ring").count() == 3
    assert part.locator(".mark").count() == 1
    assert part.locator(".cross").count() == 3
    assert "diverged" in ticks(part)


def test_collapse_and_probes_follow_what_is_chosen(opened):
    page = opened()
    collapse, probes = block(page, "collapse", 1), block(page, "probes", 1)
    for part, label in ((collapse, "at η₀ ="), (probes, "at η₀ ="), (probes, "quantity")):
        select = part.get_by_role("combobox", name=label)
        caption = part.locator("caption").text_content()
        chosen = select.evaluate("s => s.selectedIndex")
        select.select_option(index=1 if chosen == 0 else 0)
        assert part.locator("caption").text_content() != caption
    assert "Δ_W⁽¹,¹⁾F" in probes.locator("caption").text_content()
    before = ticks(probes)
    probes.get_by_role("button", name="Log y").click()
    assert ticks(probes) != before
    assert block(page, "probes", 0).count() == 0
    assert "--probes all" in page.locator("#study-0").inner_text()


def test_the_numbers_of_a_chart_are_a_table(opened):
    part = block(opened(), "transfer", 1)
    part.get_by_text("The numbers of this chart").click()
    table = part.locator(".numbers table")
    assert table.is_visible()
    assert table.locator("thead th").all_inner_texts() == ["η₀", "N = 16", "N = 32", "N = 64"]
    assert table.locator("tbody tr").count() == 7
    assert "diverged (3 of 3)" in table.inner_text()


def colours(page):
    return page.evaluate(
        "() => ({paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,"
        " lines: [...document.querySelectorAll('#study-0 [data-block=transfer] .plot .line')].map(l => getComputedStyle(l).stroke)})"
    )


def luminance(colour):
    parts = [float(v) / 255 for v in re.findall(r"[\d.]+", colour)[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_are_readable_and_the_button_changes_them(opened, scheme):
    page = opened(color_scheme=scheme)
    before = colours(page)
    assert (luminance(before["paper"]) < 0.5) == (scheme == "dark")
    assert contrast(before["paper"], before["ink"]) > 7
    assert len(set(before["lines"])) == 3
    assert all(contrast(line, before["paper"]) > 1.9 for line in before["lines"])
    page.get_by_role("button", name="theme").click()
    after = colours(page)
    assert (luminance(after["paper"]) < 0.5) == (scheme == "light")
    assert contrast(after["paper"], after["ink"]) > 7
    assert all(contrast(line, after["paper"]) > 1.9 for line in after["lines"])


def focused(page):
    return page.evaluate(
        "() => { const e = document.activeElement; return {what: e.tagName, text: e.textContent.slice(0, 20), ring: getComputedStyle(e).outlineStyle, role: e.getAttribute('role')}; }"
    )


def test_everything_can_be_done_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert focused(page)["text"].startswith("Skip")
    page.keyboard.press("Enter")
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(focused(page))
        assert seen[-1]["ring"] != "none", "the focus is seen"
        if seen[-1]["role"] == "application":
            break
    texts = [s["text"] for s in seen]
    assert {"Seeds", "Log x", "Log y"} <= set(texts)
    assert "INPUT" in [s["what"] for s in seen]
    tip = block(page, "transfer").locator(".tip")
    page.keyboard.press("ArrowRight")
    first = tip.inner_text()
    assert "N = 16" in first
    for key in ("ArrowRight", "ArrowUp", "End"):
        before = tip.inner_text()
        page.keyboard.press(key)
        assert tip.inner_text() != before
    assert "status: diverged" in page.locator("#live").text_content()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowLeft")
    assert block(page, "transfer").locator("output").inner_text() != "epoch 20 of 20"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert (
        block(page, "transfer").get_by_role("button", name="Log y").get_attribute("aria-pressed") == "false"
    )


def test_every_control_has_a_name_and_headings_are_in_order(opened):
    page = opened()
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    controls = [
        n
        for n in nodes
        if n.get("role", {}).get("value")
        in ("button", "slider", "combobox", "link", "image", "table", "application", "region")
    ]
    assert len(controls) > 30
    unnamed = [n for n in controls if not n.get("name", {}).get("value")]
    assert not unnamed
    levels = [
        int(n) for n in page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName[1])")
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("table").count() == page.locator("table > caption").count()
    identities = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(identities) == len(set(identities))


def test_it_prints_light_whole_and_without_controls(opened, tmp_path):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert luminance(colours(page)["paper"]) > 0.9
    assert page.get_by_role("button").count() == 0
    assert page.locator(".plot svg").first.is_visible()
    assert page.locator(".plot").first.evaluate("e => getComputedStyle(e).breakInside") == "avoid"
    opened_for_it = "document.querySelectorAll('details[open]').length"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {opened_for_it}; }})")
    written = page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert written.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", written)) >= 3
    assert page.evaluate("window.printed") == 5, "on paper every table is open"
    assert page.locator("details[open]").count() == 0, "and closed again on the screen"


@pytest.mark.parametrize("width", [400, 768])
def test_a_narrow_window_does_not_scroll_sideways(opened, width):
    page = opened(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width
    plot = page.locator(".plot").first.bounding_box()
    assert plot["width"] <= width
    page.set_viewport_size({"width": 1000, "height": 800})
    wait_until(page, "document.querySelector('.plot svg').viewBox.baseVal.width > 800")


def test_hostile_text_stays_text(opened):
    page = opened("hostile")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert EVIL in page.locator("#study-0 h2").inner_text()
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Log y").first.click()
    assert EVIL in page.locator("#study-0 [data-block=transfer] .numbers caption").text_content()
    assert page.evaluate("window.hacked") is None


def test_the_policy_stops_what_should_get_in_all_the_same(browser, files, tmp_path):
    text = (
        files["two"]
        .read_text()
        .replace("</main>", "<script>window.hacked=1</script><img src='http://127.0.0.1:9/x'></main>")
    )
    (tmp_path / "page.html").write_text(text)
    page = browser.new_page()
    refused, asked = [], []
    page.on("console", lambda message: refused.append(message.text))
    page.on("requestfinished", lambda request: asked.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("window.hacked") is None
    assert len([text for text in refused if "Content Security Policy" in text]) == 2
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.close()


def test_the_command_can_be_copied(opened):
    page = opened()
    button = page.get_by_role("button", name="Copy").first
    button.click()
    wait_until(page, "['Copied', 'Selected'].includes(document.querySelector('.copy').textContent)")
