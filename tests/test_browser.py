"""The report in a real browser, headless: Chromium, where it is installed, driven by playwright."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from momentopic import Corpus, DiscreteICA

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"><b>bold</b>"
THEMES = [["cat", "dog", "fur", "paw"], ["star", "moon", "sky", "sun"], ["bread", "milk", "salt", "oil"]]


@pytest.fixture(scope="module")
def browser():
    program = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
    )
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        try:
            running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield running
        running.close()


@pytest.fixture(scope="module")
def model_and_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([*THEMES[i % 3], "word"], size=rng.integers(5, 60))) for i in range(300)]
    texts = [f"{HOSTILE} {text}" if i % 7 == 0 else text for i, text in enumerate(texts)]
    corpus = Corpus.from_texts(
        texts, labels=[("a", "b", HOSTILE)[i % 3] for i in range(300)], dates=[1990 + i % 5 for i in range(300)],
        ids=[HOSTILE if i % 2 else f"id{i}" for i in range(300)], max_df=1.0, token_pattern=r"</?\w+>|\w{3,}",
    )  # fmt: skip
    model = DiscreteICA(3).fit(corpus)
    return model, model.report(tmp_path_factory.mktemp("report") / "r.html", corpus, title=f"Topics {HOSTILE}")


@pytest.fixture(params=["light", "dark"])
def page(browser, model_and_file, request):
    """The report open in a page that fails the test at any error, message or request."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    wrong = []
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    address = model_and_file[1].as_uri()
    page.on("request", lambda r: None if r.url.startswith((address, "data:")) else wrong.append(f"request: {r.url}"))
    page.goto(address)
    yield page
    assert wrong == []
    context.close()


def words_shown(page):
    return page.locator("#words button").all_inner_texts()


def test_a_topic_is_chosen_by_click_everywhere(page, model_and_file):
    model, _ = model_and_file
    for k in (2, 1):
        page.locator(f"#topic-option-{k}").click()
        assert page.locator("#topic-title").inner_text().startswith(f"Topic {k}: ")
        assert words_shown(page)[:3] == [word for word, _ in model.topics(3)[k]]
        assert page.locator("#topics [aria-selected=true]").get_attribute("id") == f"topic-option-{k}"
        assert page.evaluate("location.hash") == f"#topic-{k}"
    page.locator('#map g[data-topic="0"] circle').click(force=True)
    assert page.locator("#topic-title").inner_text().startswith("Topic 0: ")
    assert page.locator("#map g.chosen").get_attribute("data-topic") == "0"
    page.locator("#similar button").first.click()
    assert not page.locator("#topic-title").inner_text().startswith("Topic 0: ")
    page.locator("#overlap").click(position={"x": 5, "y": 5})
    assert page.locator("#topic-title").inner_text().startswith("Topic 0: ")
    page.locator("#next").click()
    assert page.locator("#topic-title").inner_text().startswith("Topic 1: ")


def test_a_topic_is_chosen_by_keyboard(page):
    def number():
        return page.locator("#topic-title").inner_text().split(":")[0]

    assert number() == "Topic 0"
    page.keyboard.press("ArrowRight")
    assert number() == "Topic 1"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert number() == "Topic 2"
    for _ in range(12):  # to the list by the tabulator alone
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "topics":
            break
    assert page.evaluate("document.activeElement.id") == "topics"
    page.keyboard.press("Home")
    assert number() == "Topic 0"
    page.keyboard.press("ArrowDown")
    assert number() == "Topic 1"
    page.keyboard.press("End")
    assert number() == "Topic 2"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("moon")
    page.keyboard.press("ArrowLeft")  # moves in the text, not among topics
    assert number() == "Topic 2"


def test_the_slider_orders_words_by_relevance(page, model_and_file):
    model, _ = model_and_file
    before = words_shown(page)
    assert before[0] == model.topics(1)[0][0][0]
    page.locator("#lambda").focus()
    page.keyboard.press("Home")
    assert "0.00" in page.locator("#lambda-value").inner_text()
    after = words_shown(page)
    assert sorted(after) != after or after != before
    # "word" is in every topic: probable, but telling nothing
    assert before.index("word") < after.index("word")


def test_a_word_is_searched(page, model_and_file):
    model, _ = model_and_file
    page.locator("#search").fill("moon")
    hit = page.locator("#search-results .hit").first
    assert hit.locator("strong").inner_text() == "moon"
    expected = int(np.argmax(model.components_[:, list(model.feature_names_in_).index("moon")]))
    assert hit.locator("button").first.get_attribute("data-topic") == str(expected)
    assert page.locator("#map g.found").count() >= 1
    hit.locator("button").first.click()
    assert page.locator("#topic-title").inner_text().startswith(f"Topic {expected}: ")
    page.locator("#search").fill("zebra")
    assert "No word" in page.locator("#search-status").inner_text()
    page.locator("#search").fill("")
    assert page.locator("#search-section").is_hidden()
    page.locator("#words button").first.click()
    assert page.locator("#search-results .hit").count() >= 1


def test_hostile_strings_are_shown_as_text(page):
    assert page.locator("#title").inner_text() == f"Topics {HOSTILE}"
    assert page.title() == f"Topics {HOSTILE}"
    assert page.locator("img").count() == 0
    assert page.locator("body b:not(.track b)").count() == 0
    assert HOSTILE in page.locator("#labels").inner_text()
    seen = ""
    for _ in range(3):
        page.locator("#documents-more").click()
        seen += page.locator("#documents").inner_text()
        page.keyboard.press("ArrowRight")
    assert HOSTILE in seen
    page.locator("#search").fill("<b>")
    assert page.locator("#search-results .hit strong").first.inner_text() == "<b>"


def test_documents_labels_time_spectrum_and_card(page, model_and_file):
    model, _ = model_and_file
    for name in ("time-section", "labels-section", "documents-section"):
        assert page.locator(f"#{name}").is_visible()
    assert page.locator("#time rect").count() == 5
    assert page.locator("#documents mark").count() > 5
    assert page.locator("#documents li").count() == 6
    assert page.locator("#spectrum rect").count() > 3
    assert "topics" in page.locator("#spectrum-advice").inner_text()
    card = page.locator("#card").inner_text()
    for text in ("seed", "momentopic of the fit", "documents", str(model.n_iter_)):
        assert text in card


def test_an_address_chooses_a_topic(browser, model_and_file):
    page = browser.new_page()
    page.goto(model_and_file[1].as_uri() + "#topic-2")
    assert page.locator("#topic-title").inner_text().startswith("Topic 2: ")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_a_phone_and_in_both_schemes(browser, model_and_file, scheme, tmp_path):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 375, "height": 700})
    page = context.new_page()
    page.goto(model_and_file[1].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    ink, panel = (
        [int(part) for part in page.evaluate(f"getComputedStyle({of}).{what}").strip("rgba()").split(",")[:3]]
        for of, what in (("document.body", "color"), ("document.querySelector('.panel')", "backgroundColor"))
    )
    assert (sum(panel) > sum(ink)) == (scheme == "light")
    assert contrast(ink, panel) > 7
    quiet = page.evaluate("getComputedStyle(document.querySelector('.note')).color").strip("rgba()").split(",")
    assert contrast([int(part) for part in quiet[:3]], panel) > 4.5
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    assert (tmp_path / "phone.png").stat().st_size > 20_000
    context.close()


def contrast(first, second):
    """The contrast ratio of two colours, as the accessibility guidelines of the web define it."""

    def luminance(colour):
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_topics_that_are_not_reproducible_are_marked(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = np.zeros((300, 12), dtype=int)
    X[np.arange(300)[:, None], 4 * (np.arange(300)[:, None] % 2) + np.arange(4)] = rng.poisson(4, (300, 4))
    X[7, 8:] = 30  # a document of its own
    model = DiscreteICA(3, refine=None, n_groups=16).fit(X)
    marked = [k for k, topic in enumerate(model.topics()) if topic.unstable]
    assert len(marked) == 1
    page = browser.new_page()
    page.goto(model.report(tmp_path / "r.html").as_uri() + f"#topic-{marked[0]}")
    mark = page.locator("#topics .unstable")
    assert mark.count() == 1
    assert mark.inner_text() == f"? {model.stability_[marked[0]]:.2f}"
    assert "is not reproducible" in mark.get_attribute("title")
    assert "not reproducible" in page.locator("#topic-facts").inner_text()
    assert page.locator("#map .unstable").get_attribute("data-topic") == str(marked[0])
    page.locator("#topics li").nth((marked[0] + 1) % 3).click()
    assert "not reproducible" not in page.locator("#topic-facts").inner_text()
    assert "stability" in page.locator("#topic-facts").inner_text()
    page.close()
