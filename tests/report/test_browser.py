"""The report in a real browser: it loads alone, every figure draws, everything that can be pressed works."""

import dataclasses
import re

import numpy as np
import pytest

from tests.report.fleet_runs import fleet_run
from tests.report.report_runs import jumping_rows, play_class_run, play_run
from tests.report.test_render import EVIL
from undrift.report import render, render_fleet

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]  # one browser for all of them
TASKS = ("regression", "classification")
PLOTS = {"regression": 8 + 4 + 5, "classification": 10 + 4 + 5, "multiclass": 9 + 4}
"""Figures, panels of contributions (not of several classes), and of target and features then and now."""
VIEWS = {"regression": 6, "classification": 12, "multiclass": 13}


class Page:
    """An open report, and what it complained about."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.path, self.complaints, self.requests = path, [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.settled()

    def settled(self):
        """Wait until everything is drawn."""
        self.page.wait_for_selector("html[data-drawn=yes]", timeout=60_000)

    def press(self, selector):
        self.page.click(selector)
        self.settled()

    def value(self, script):
        return self.page.evaluate(script)

    def drawn(self):
        """How many marks each figure shows."""
        marks = ".trace path.js-line, .trace .point, .heatmaplayer image, .fills path, .points path"
        return dict(
            self.value(f"""() => [...document.querySelectorAll('.plot')].map(
                box => [box.id, box.querySelectorAll('{marks}').length])""")
        )

    def ranges(self, *keys):
        """Horizontal ranges of figures."""
        find = "k => document.getElementById('plot-' + k)._fullLayout.xaxis.range"
        return self.value(f"() => {list(keys)}.map({find})")

    def close(self):
        self.context.close()
        assert not self.complaints
        assert self.requests == [self.path.as_uri()]


def label_gaps(page):
    """The spaces between the labels below small panels, in pixels."""
    return page.value("""() => [...document.querySelectorAll('.panel')].flatMap(panel => {
        const boxes = [...panel.querySelectorAll('.xtick text')].map(text => text.getBoundingClientRect());
        boxes.sort((a, b) => a.left - b.left);
        return boxes.slice(1).map((box, k) => box.left - boxes[k].right); })""")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    hours = np.datetime64("2024-01-01", "us") + np.arange(700) * np.timedelta64(3600, "s")
    times = dict(zip(TASKS, (hours, None), strict=True))
    pages = {t: render(play_run(t, *jumping_rows(t, 700), time=times[t]), folder / f"{t}.html") for t in TASKS}
    return pages | {"multiclass": render(play_class_run(folder, 400), folder / "multiclass.html")}


@pytest.fixture(scope="module")
def wide(browser, reports):
    """Both reports on a large screen; closing them checks that nothing was said or fetched."""
    pages = {task: Page(browser, path, viewport={"width": 1280, "height": 900}) for task, path in reports.items()}
    yield pages
    for page in pages.values():
        page.close()


@pytest.mark.parametrize("task", PLOTS)
def test_every_figure_and_every_view_draws(wide, task):
    page = wide[task]
    assert len(page.drawn()) == PLOTS[task]
    assert all(page.drawn().values()), page.drawn()
    buttons = page.page.locator("[data-view]")
    assert buttons.count() == VIEWS[task]
    for k in range(buttons.count()):
        buttons.nth(k).click()
        page.settled()
        key = buttons.nth(k).get_attribute("data-figure")
        assert buttons.nth(k).get_attribute("aria-pressed") == "true"
        assert page.page.locator(f"[data-figure={key}][aria-pressed=true]").count() == 1
        assert page.drawn()[f"plot-{key}"] > 0
    assert page.value("() => document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("task", PLOTS)
def test_bands_have_colours_of_their_own_and_titles_are_whole(wide, task):
    page = wide[task]
    shades = page.value("() => document.getElementById('plot-candidates')._fullData.map(trace => trace.fillcolor)")
    assert len(set(shades)) == len(shades) > 1
    unit = {"regression": "units of count", "classification": "log-odds", "multiclass": "probability"}[task]
    title = page.value("() => document.getElementById('plot-effects')._fullLayout.xaxis.title.text")
    assert title == f"change in {unit}"


def test_dates_of_small_panels_stand_apart_on_a_large_screen(wide):
    assert min(label_gaps(wide["regression"])) > 2


def test_small_panels_have_no_toolbar(wide):
    bars = wide["regression"].value("""() => Object.fromEntries(['.panel .plot', '#plot-rolling'].map(
        name => [name, document.querySelectorAll(name + ' .modebar-btn').length]))""")
    assert bars[".panel .plot"] == 0
    assert bars["#plot-rolling"] > 0


def test_the_axis_can_be_rows_or_time(wide):
    page = wide["regression"]
    kind = "() => document.getElementById('plot-rolling')._fullLayout.xaxis.type"
    assert page.value(kind) == "date"
    page.press("[data-axis=round]")
    assert page.value(kind) == "linear"
    assert page.ranges("spectrum")[0][1] > 690
    page.press("[data-axis=time]")
    assert page.value(kind) == "date"


def test_a_zoom_in_one_figure_is_a_zoom_in_all(wide):
    page = wide["classification"]
    box = page.page.locator("#plot-rolling .nsewdrag").first
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    y = place["y"] + place["height"] / 2
    page.page.mouse.move(place["x"] + 0.3 * place["width"], y)
    page.page.mouse.down()
    page.page.mouse.move(place["x"] + 0.6 * place["width"], y, steps=5)
    page.page.mouse.up()
    page.page.wait_for_function(
        "() => document.getElementById('plot-contributions-3')._fullLayout.xaxis.range[1] < 500"
    )
    page.settled()
    low, high = page.ranges("rolling")[0]
    assert 150 < low < 300 < high < 500
    assert page.ranges("spectrum", "cumulative", "contributions-0", "contributions-3") == [[low, high]] * 4
    assert page.ranges("calibration")[0][1] < 2  # its axis is something else
    page.press("#theme")
    assert page.ranges("rolling", "spectrum") == [[low, high]] * 2  # drawn again, still zoomed
    page.press("#theme")
    page.value("() => Plotly.relayout('plot-cumulative', {'xaxis.autorange': true}).then(() => true)")
    page.page.wait_for_function(
        "() => document.getElementById('plot-contributions-3')._fullLayout.xaxis.range[1] > 600"
    )
    page.settled()


def test_it_prints_in_light_colours_even_from_the_dark(wide):
    page = wide["regression"]
    page.value("() => { document.documentElement.dataset.theme = 'dark'; window.themes = []; }")
    page.value(
        """() => new MutationObserver(() => window.themes.push(document.documentElement.dataset.theme)).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-theme']})"""
    )
    assert len(page.page.pdf(format="A4")) > 50_000
    page.settled()
    assert page.value("() => window.themes") == ["light", "dark"]


def test_the_theme_follows_the_system_and_the_button(browser, reports):
    page = Page(browser, reports["regression"], color_scheme="dark")
    background = "() => getComputedStyle(document.body).backgroundColor"
    tick = "() => getComputedStyle(document.querySelector('#plot-rolling .xtick text')).fill"
    contrast = """() => {
      const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
      const box = document.createElement('i'); document.body.append(box);
      const light = name => { box.style.color = `var(--${name})`;
        const [r, g, b] = getComputedStyle(box).color.match(/[\\d.]+/g).map(Number).map(channel);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return ['ink', 'soft', 'mute', 'own'].map(name => ratio(light(name), light('surface')));
    }"""
    dark = page.value(background), page.value(tick)
    assert min(page.value(contrast)) >= 4.5  # WCAG AA for text
    page.press("#theme")
    assert page.value(background) != dark[0]
    assert page.value(tick) != dark[1]
    assert min(page.value(contrast)) >= 4.5
    for scheme in ("light", "dark"):
        page.page.emulate_media(color_scheme=scheme)
        page.page.wait_for_selector(f"html[data-theme={scheme}]")
        page.settled()
    assert (page.value(background), page.value(tick)) == dark
    page.close()


@pytest.mark.parametrize("task", PLOTS)
def test_a_phone_never_scrolls_sideways(browser, reports, task):
    page = Page(browser, reports[task], viewport={"width": 360, "height": 800}, is_mobile=True, has_touch=True)
    assert page.value("() => [window.innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    right = "s => s.getBoundingClientRect().right"
    assert max(page.value(f"() => [...document.querySelectorAll('.plot svg.main-svg')].map({right})")) <= 360
    assert all(page.drawn().values())
    page.close()


def test_the_pointer_shows_the_interval_of_a_prediction(wide):
    page = wide["regression"]
    page.press("[data-figure=predictions][data-view='0']")
    box = page.page.locator("#plot-predictions .nsewdrag").first
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    page.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.page.wait_for_selector("#plot-predictions .hoverlayer .legendtext")
    said = page.page.locator("#plot-predictions .hoverlayer .legendtext").all_text_contents()
    assert any(re.search(r"predicted : \S+ \(90%: \S+ to \S+\)", text) for text in said), said


def test_a_phone_shows_dates_apart_and_says_where_tables_go_on(browser, reports):
    page = Page(browser, reports["regression"], viewport={"width": 360, "height": 800}, is_mobile=True, has_touch=True)
    signs = page.value("""() => [...document.querySelectorAll('.scroll')].map(
        box => [box.scrollWidth > box.clientWidth + 1, box.hasAttribute('data-wide')])""")
    assert any(is_wide for is_wide, _ in signs)
    assert all(is_wide == told for is_wide, told in signs)
    assert min(label_gaps(page)) > 2
    assert page.value("() => document.querySelectorAll('.modebar-btn').length") == 0
    page.close()


def test_markup_in_names_stays_text(browser, tmp_path):
    names = list(EVIL)
    Z, y = jumping_rows("classification", 120, dim=len(names))
    terms = dict.fromkeys(("start", "stability", "variation", "potential_drift", "excess"), 1.0)
    certificate = {"name": EVIL[2], "leaf": EVIL[1], "refused": None, "refit_every": None, **terms}
    certificate |= {"regret": 1.0, "bound": 5.0, "comparator_loss": 9.0, "own_loss": 10.0, "rounds": 120}
    data = play_run("classification", Z, y, names=names, certify=False)
    data = dataclasses.replace(
        data,
        target=EVIL[1],
        classes=[EVIL[0], EVIL[2]],
        candidates=[EVIL[1], *data.candidates[1:]],
        notes=list(EVIL),
        certificates=[certificate],
    )
    page = Page(browser, render(data, tmp_path / "<b>'\"&.html"))
    assert page.value("() => window.pwned === undefined")
    assert page.value("() => document.querySelectorAll('img, b, main script').length") == 0
    assert page.value("() => document.querySelector('h1 em').textContent") == EVIL[1]
    shown = page.value("() => [...document.querySelectorAll('#plot-predictions .legendtext')].map(t => t.textContent)")
    assert any("<script>" in text for text in shown)
    page.close()


def test_the_keys_of_a_fleet_sort_and_filter(browser, tmp_path):
    found = fleet_run(names=lambda k: EVIL[k] if k < 6 else f"p{k}")
    phone = {"viewport": {"width": 360, "height": 800}, "is_mobile": True, "has_touch": True}
    page = Page(browser, render_fleet(found, tmp_path / "fleet.html"), **phone)
    assert len(page.drawn()) == 5
    assert all(page.drawn().values()), page.drawn()
    assert page.value("() => [window.innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    names = (
        "() => [...document.querySelectorAll('#keys tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent)"
    )
    by = {one.key: one for one in found.keys}
    assert page.value(names) == [one.key for one in found.keys]  # the worst first
    heads = page.page.locator("#keys thead button")
    heads.nth(2).click()
    memories = [by[name].half_life for name in page.value(names)]
    assert memories == sorted(memories)
    heads.nth(5).click()
    assert heads.nth(5).locator("..").get_attribute("aria-sort") == "descending"
    heads.nth(0).click()
    assert [name for name in page.value(names) if name.startswith("p")][:5] == ["p6", "p7", "p8", "p9", "p10"]
    page.page.fill("#keys input", "<SCRIPT>")
    assert set(page.value(names)) == {name for name in EVIL if "<script>" in name}
    assert "of 40 keys" in page.page.inner_text("[data-matches]")
    assert page.value("() => window.pwned === undefined && !document.querySelector('img, main script')")
    page.close()


def test_the_name_of_a_key_leads_to_its_curve_which_stays_when_the_colours_change(browser, tmp_path):
    found = fleet_run(spoiled=False)
    page = Page(browser, render_fleet(found, tmp_path / "fleet.html"))
    drawn = "() => [...document.getElementById('plot-curve').data[0].y]"
    first = page.value(drawn)
    assert page.page.inner_text("#title-curve") == f"One key: {found.keys[0].key}"
    page.press("#keys tbody tr:nth-child(5) a")
    assert page.page.inner_text("#title-curve") == f"One key: {found.keys[4].key}"
    rows = [i for i, key in enumerate(found.run.outputs.keys) if key == found.keys[4].key]
    shown = page.value(drawn)
    assert shown != first
    assert shown == pytest.approx(found.run.outputs.target[rows].tolist(), rel=1e-3)
    page.press("#theme")
    assert page.value(drawn) == shown
    page.close()
