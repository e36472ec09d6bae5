"""Tests the page in a browser: it works without a network, escapes text, and its charts and tables are interactive."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

HOSTILE = '</script><script>window.obeyed = true</script><img src=x onerror="window.obeyed = true">'


def domain(page: Page, chart: str) -> list[float]:
    return page.evaluate(f"window.ergometer.charts.{chart}.domain()")


def stage(page: Page, chart: str) -> Locator:
    found = page.locator(f"#{chart} .stage")
    found.scroll_into_view_if_needed()
    return found


def drag(page: Page, chart: str, start: float, end: float) -> None:
    """Moves the mouse between fractions of the chart's width, at half of its height."""
    box = stage(page, chart).bounding_box()
    middle = box["y"] + box["height"] / 3
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (start + end) / 2, middle)
    page.mouse.move(box["x"] + box["width"] * end, middle)
    page.mouse.up()


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#request_table tbody td:nth-child({number})").all_inner_texts()


def test_the_page_opens_without_a_network(page):
    expect(page.locator("h1")).to_have_text("Profile of tiny on builtin")
    # Every chart has drawn pixels.
    painted = """canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(v => v)"""
    for figure in page.locator("figure.chart:not(#nothing)").all():
        assert figure.locator("canvas").evaluate(painted), figure.get_attribute("id")


def test_headings_have_no_gap(page):
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))


def test_charts_have_accessible_names(page):
    for figure in page.locator("figure.chart").all():
        label = figure.locator("[role=img]").get_attribute("aria-label")
        assert label.startswith(figure.locator("h3").inner_text())


def test_hostile_text_is_escaped(page):
    expect(page.locator("#nothing h3")).to_have_text(HOSTILE)
    expect(page.locator("#hostile .legend button")).to_have_text(HOSTILE)
    expect(page.locator(".facts dd").last).to_have_text(HOSTILE)
    expect(page.locator("#odd > p")).to_contain_text("<!-- ]]> & [U+202E]turned[U+202C] ␛[31m")
    assert page.evaluate("window.obeyed") is None
    assert page.locator("main img").count() == 0


def test_a_tooltip_shows_hostile_names_literally(page):
    # The only point of the chart has its name next to it.
    stage(page, "hostile")
    name = page.locator("#hostile .name").bounding_box()
    page.mouse.move(name["x"] - 8, name["y"] + name["height"] / 2)
    expect(page.locator("#hostile .tooltip .head")).to_have_text(HOSTILE)
    assert page.evaluate("window.obeyed") is None


def test_the_content_security_policy_blocks_scripts_and_styles(open_page):
    page = open_page()
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    # An inline script, an event handler and a style: the policy blocks all of them.
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        const button = document.createElement("button");
        button.setAttribute("onclick", "window.injected = true");
        document.body.append(button);
        button.click();
        const style = document.createElement("style");
        style.textContent = "body { letter-spacing: 7px }";
        document.head.append(style);
    }""")
    assert page.evaluate("window.injected") is None
    assert page.evaluate("getComputedStyle(document.body).letterSpacing") == "normal"
    assert len(page.account.complaints) == 3
    page.account.complaints.clear()


def test_a_script_written_into_the_file_does_not_run(open_page, page_file, tmp_path):
    changed = tmp_path / "changed.html"
    text = page_file.read_text(encoding="utf-8")
    changed.write_text(text.replace("<main", "<script>window.injected = true</script><main", 1), encoding="utf-8")
    page = open_page(path=changed)
    assert page.evaluate("window.injected") is None
    assert any("Content Security Policy" in complaint for complaint in page.account.complaints)
    page.account.complaints.clear()


@pytest.mark.parametrize("chart", ["timeline", "ttft", "distribution", "accuracy"])
def test_a_drag_zooms_and_a_double_click_resets(page, chart):
    low, high = domain(page, chart)
    drag(page, chart, 0.4, 0.6)
    closer = domain(page, chart)
    assert low < closer[0] < closer[1] < high
    button = page.locator(f"#{chart} .reset")
    expect(button).to_be_visible()
    stage(page, chart).dblclick(position={"x": 300, "y": 60})
    assert domain(page, chart) == [low, high]
    expect(button).to_be_hidden()


def test_the_button_resets_the_zoom(page):
    whole = domain(page, "sweep")
    drag(page, "sweep", 0.3, 0.5)
    assert domain(page, "sweep") != whole
    page.locator("#sweep .reset").click()
    assert domain(page, "sweep") == whole


def test_a_category_axis_cannot_be_zoomed(page):
    whole = domain(page, "energy_by_subject")
    drag(page, "energy_by_subject", 0.3, 0.5)
    assert domain(page, "energy_by_subject") == whole


def test_keys_zoom_and_pan(page):
    low, high = domain(page, "timeline")
    stage(page, "timeline").focus()
    page.keyboard.press("+")
    closer = domain(page, "timeline")
    assert closer == pytest.approx([low + (high - low) / 4, high - (high - low) / 4])
    page.keyboard.press("ArrowRight")
    assert domain(page, "timeline")[0] > closer[0]
    page.keyboard.press("-")
    page.keyboard.press("Escape")
    assert domain(page, "timeline") == [low, high]


def test_a_wheel_zooms_only_with_ctrl(page):
    whole = domain(page, "timeline")
    box = stage(page, "timeline").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    page.mouse.wheel(0, 1)
    assert domain(page, "timeline") == whole
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(page.locator("#timeline .reset")).to_be_visible()
    assert domain(page, "timeline")[1] < whole[1]


def test_a_tooltip_shows_values_with_units(page):
    box = stage(page, "timeline").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 80)
    tooltip = page.locator("#timeline .tooltip")
    expect(tooltip).to_be_visible()
    expect(tooltip.locator(".head")).to_have_text(re.compile(r"^time [\d.]+ (ms|s)$"))
    expect(tooltip).to_contain_text("package")
    expect(tooltip.locator("dd").first).to_have_text(re.compile(r"^\d+(\.\d+)? W$"))
    page.mouse.move(5, 5)
    expect(tooltip).to_be_hidden()


def test_the_tooltip_of_a_bar_shows_name_and_interval(page):
    box = stage(page, "accuracy").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    tooltip = page.locator("#accuracy .tooltip")
    expect(tooltip).to_contain_text("counting")
    expect(tooltip).to_contain_text("97 % to 100 %")


def test_ticks_use_readable_units(page):
    assert "10 ms" in page.locator("#distribution .tick").all_text_contents()
    expect(page.locator("#sweep .axis").first).to_have_text("time to first token (ms)")
    assert "100 mJ" in page.locator("#frontier .tick").all_text_contents()


def test_the_legend_hides_and_shows_series(page):
    ends = page.locator("#timeline .label")
    expect(ends).to_have_count(2)
    button = page.locator("#timeline .legend button", has_text="package")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(ends).to_have_count(1)
    button.click()
    expect(ends).to_have_count(2)


def test_an_empty_chart_says_so(page):
    expect(page.locator("#nothing .stage")).to_have_text("no data")


def test_tables_sort_by_number(page):
    head = page.locator("#request_table th", has_text="Latency")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    values = [float(text.split()[0]) for text in column(page, 4)]
    assert values == sorted(values)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    values = [float(text.split()[0]) for text in column(page, 4)]
    assert values == sorted(values, reverse=True)
    # Sorted as text, 58.2 would come before 9.9.
    assert values[0] > 10
    assert page.locator("#request_table th[aria-sort]").count() == 1


def test_missing_values_are_sorted_last(page):
    button = page.locator("#request_table th", has_text="Energy").get_by_role("button")
    for _ in range(2):
        button.click()
        assert "-" not in column(page, 5)


def test_a_long_table_is_shortened(page):
    assert len(column(page, 1)) == 20
    page.get_by_role("button", name="Show all 600").click()
    assert len(column(page, 1)) == 600


def test_rows_can_be_searched(page):
    page.locator("#request_table input").fill("Remainder")
    expect(page.locator("#request_table .count")).to_have_text(re.compile(r"^\d+ of 600 rows$"))
    assert set(column(page, 2)) == {"remainder"}


def span_of(page: Page, request: int) -> list[float]:
    """The start and end of a request, read from the file of the page."""
    text = Path(page.account.address.removeprefix("file://")).read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="timeline-data">(.*?)</script>', text, re.DOTALL).group(1))["chart"]
    spans = next(mark for panel in data["panels"] for mark in panel["marks"] if mark["kind"] == "spans")
    place = spans["requests"].index(request)
    return [spans["start"][place], spans["end"][place]]


def expect_request(page: Page, request: int) -> None:
    start, end = span_of(page, request)
    length = end - start
    assert domain(page, "timeline") == pytest.approx([start - length, end + length])
    expect(page.locator("#timeline")).to_be_in_viewport()
    expect(page.locator("#timeline .tooltip .head")).to_have_text(re.compile(rf" {request}$"))
    assert page.locator("#timeline .marked").count() == 1
    assert page.evaluate("location.hash") == f"#request={request}"


def test_a_request_link_zooms_to_its_span(page):
    page.locator("#request_table input").fill("117")
    page.locator('a[href="#request=117"]').click()
    expect_request(page, 117)


def test_a_url_fragment_zooms_to_a_request(open_page):
    expect_request(open_page(hash="#request=42"), 42)


def test_clicking_a_point_zooms_to_its_request(page):
    box = stage(page, "ttft").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    # The tooltip belongs to the nearest point, which is marked with a ring.
    ring = page.locator("#ttft .cross circle").bounding_box()
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    request = int(page.locator("#ttft .tooltip dd").last.inner_text())
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#timeline .marked")).to_have_count(1)
    expect_request(page, request)


def test_packed_numbers_are_unpacked_exactly(open_page, page_file, long_page_file):
    # The first requests are the same on both pages; on the long page their numbers are packed.
    short, long = open_page(hash="#request=117"), open_page(path=long_page_file, hash="#request=117")
    assert domain(long, "timeline") == pytest.approx(domain(short, "timeline"), abs=1e-6)
    tooltips = [page.locator("#timeline .tooltip").inner_text() for page in (short, long)]
    assert tooltips[0] == tooltips[1]
    expect(long.get_by_role("button", name="Show all 20,000")).to_be_visible()
    assert long.evaluate("window.ergometer.showRequest(19999)")
    expect(long.locator("#timeline .tooltip .head")).to_have_text(re.compile(" 19999$"))


def test_an_unknown_request_in_the_url_is_ignored(page):
    assert page.evaluate("window.ergometer.showRequest(123456)") is False


def background(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_mode(open_page):
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    assert background(light) == "rgb(255, 255, 255)"
    assert background(dark) != background(light)
    grounds = (background(dark), background(light))
    for page in (light, dark):
        page.locator("button.theme").click()
    assert (background(light), background(dark)) == grounds


def test_printing_uses_light_mode(open_page):
    page = open_page(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert background(page) == "rgb(255, 255, 255)"
    expect(page.locator(".contents")).to_be_hidden()


@pytest.mark.parametrize("width", [360, 800, 1900])
def test_the_page_is_not_wider_than_the_screen(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_is_readable_without_javascript(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("#request_table tbody tr").count() == 600
    expect(page.locator("#timeline .needs")).to_be_visible()
    expect(page.locator(".figures .value").first).to_have_text("79.7 %")
    expect(page.locator("button.theme")).to_be_hidden()


def test_a_chart_can_be_saved(page):
    page.locator("#frontier figcaption").scroll_into_view_if_needed()
    with page.expect_download() as kept:
        page.locator("#frontier .save").click()
    assert kept.value.suggested_filename == "frontier.svg"
    text = Path(kept.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<svg") and "accuracy (%)" in text and "<script" not in text
