"""The documentation builds strictly, and nothing in it can rot unseen: commands, code, classes, formulas."""

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import undrift as ud
from tests.helpers import ROOT

DOCS = ROOT / "docs"
MARKDOWN = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def blocks(path, language):
    """Return the fenced blocks of a page, indented ones too."""
    text = path.read_text(encoding="utf-8")
    fences = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return ["\n".join(line[len(indent) :] for line in body.splitlines()) for indent, body in fences]


together = pytest.mark.xdist_group("browser")
"""Tests of the built site run in one process, that of the browser, so that it is built once."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'undrift[docs]'")
    out = tmp_path_factory.mktemp("site")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", out],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return out


@pytest.fixture(scope="module")
def site(built):
    return {page.relative_to(built): page.read_text(encoding="utf-8") for page in built.rglob("*.html")}


@pytest.mark.slow
@together
def test_every_page_is_built(site):
    wanted = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert wanted <= set(site)


@pytest.mark.slow
@together
def test_formulas_became_mathml(site):
    drawn = [formula for text in site.values() for formula in re.findall(r"<math.*?</math>", text, re.DOTALL)]
    assert len(drawn) > 200
    assert not [formula for formula in drawn if "\\" in formula]
    assert not any('class="arithmatex"' in text for text in site.values())


@pytest.mark.slow
@together
def test_the_site_fetches_nothing(site):
    for path, text in site.items():
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*src="(https?:[^"]*)"|<link[^>]*href="(https?:[^"]*)"', text)
        assert not fetched, path


@pytest.mark.slow
@together
def test_the_examples_page_shows_every_example(site):
    shown = html.unescape(re.sub(r"<[^>]+>", "", site[Path("examples.html")]))
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert len(examples) > 8
    for example in examples:
        assert example.read_text(encoding="utf-8").strip() in shown, example.name


@pytest.mark.slow
@together
def test_search_finds_pages_opened_from_the_file_system(built, browser):
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((built / "theory" / "vaw.html").as_uri())
    page.click(".md-search__input")
    page.locator(".md-search__input").press_sequentially("half-life")
    page.wait_for_selector(".md-search-result__item", timeout=60_000)
    titles = [title.inner_text() for title in page.locator(".md-search-result__item h1").all()]
    page.close()
    assert "Glossary" in titles
    assert all(url.startswith("file:") for url in asked)


def test_command_pages_say_what_the_help_says():
    commands = module(DOCS / "commands" / "table.py")
    helps = commands.helps()
    assert {page.stem for page in (DOCS / "commands").glob("*.md")} == set(helps), "run python docs/commands/table.py"
    for name, text in helps.items():
        page = DOCS / "commands" / f"{name}.md"
        assert page.read_text(encoding="utf-8") == commands.page(name, text), "run python docs/commands/table.py"


def test_commands_in_the_pages_exist_with_their_options():
    helps = module(DOCS / "commands" / "table.py").helps()
    seen = 0
    for page in MARKDOWN:
        for line in page.read_text(encoding="utf-8").splitlines():
            found = re.match(r"(?:\$ |[^`|#]+\| )?undrift ([a-z][a-z-]*)\b(.*)", line)
            if found is None or "--help" in line or "```" in line:
                continue
            assert found[1] in helps, f"{page.name}: {line}"
            for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*|-[A-Za-z])(?![\w.])", found[2]):
                assert re.search(rf"(?<![\w-]){option}\b", helps[found[1]]), f"{page.name}: {option} in: {line}"
                seen += 1
    assert seen > 10


@pytest.mark.parametrize("name", ["quickstart", "choosing", "fleet", "live"])
def test_the_code_of_the_first_pages_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = blocks(DOCS / f"{name}.md", "python")
    assert code
    exec("\n".join(code), {})


def test_the_first_steps_from_river_run():
    pytest.importorskip("river", reason="river is not installed: pip install 'undrift[river]'")
    (code,) = [block for block in blocks(DOCS / "quickstart.md", "text") if "from river" in block]
    names = {"stream": [({"heat": float(k % 7)}, 2.0 * (k % 7)) for k in range(100)]}
    exec(code, names)
    assert names["guess"] == pytest.approx(names["y"], abs=0.1)


def test_the_loop_of_the_page_on_events_tells_what_the_page_says(capsys):
    (code,) = blocks(DOCS / "events.md", "python")
    exec(code, {})
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[:3] for words in told] == [["805", "error", "grew"], ["820", "memory", "shortened"]]


def test_examples_are_named_in_words_for_readers_of_the_markdown():
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    included = re.findall(r'^--8<-- "(.*)"$', text, re.MULTILINE)
    assert len(included) > 8
    assert re.findall(r"^The file `(.*)`:$", text, re.MULTILINE) == included


def test_the_recipe_for_a_learner_keeps_the_contract(tmp_path, monkeypatch):
    (code,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    path = tmp_path / "midrange.py"
    path.write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    learner = importlib.import_module("midrange").Midrange()
    ud.checks.check_learner(learner, rounds=2000)
    learner.play([[]] * 3, [1.0, 4.0, 2.0])
    assert learner.predict([]) == 2.5


def test_every_public_name_has_its_place_in_the_reference():
    written = module(DOCS / "hooks.py").on_page_markdown
    named = {
        line.split()[1].rpartition(".")[2]
        for page in (DOCS / "api").glob("*.md")
        for line in written(page.read_text(encoding="utf-8")).splitlines()
        if line.startswith("::: ")
    }
    assert not set(ud.__all__) - named, "add `::: module.name` to a page of docs/api"


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {ud.__version__}\n" in text


def test_every_public_name_says_what_threads_may_do():
    text = (DOCS / "threads.md").read_text(encoding="utf-8")
    learners = {name for name, value in vars(ud.learners).items() if isinstance(value, type)} - {"Learner"}
    assert "those of `undrift.learners`" in text
    names = [name for name in ud.__all__ if name not in learners]
    names += [f"undrift.{host}" for host in ("river", "sklearn", "spark", "torch", "optax")]
    names += ["Mixer", "Mixable", "RangeMean", "Aggregating", "SelfConfident", "ResidualScale", "Trace", "FleetRun"]
    assert not [name for name in names if f"`{name}`" not in text and f"`undrift.{name}`" not in text]
