"""Shared by the browser tests: a browser without a network, and a page with every kind of block and chart.

`cargo run --example page` writes the page. The browser records all network requests and console errors of the page, and a
test fails if there are any.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]


def find_browser() -> str:
    named = os.environ.get("ERGOMETER_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.fail(
        "no browser found: neither chromium, chromium-browser nor google-chrome is on PATH. "
        "hint: install Chromium, or set ERGOMETER_CHROMIUM=/path/to/chromium"
    )


def write_page(path: Path, *requests: str) -> Path:
    command = ["cargo", "run", "-q", "-p", "ergometer-charts", "--example", "page", "--", str(path), *requests]
    subprocess.run(command, cwd=ROOT, check=True)
    return path


@pytest.fixture(scope="session")
def page_file(tmp_path_factory) -> Path:
    return write_page(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="session")
def long_page_file(tmp_path_factory) -> Path:
    """A page with so many requests that its numbers are packed."""
    return write_page(tmp_path_factory.mktemp("page") / "long.html", "20000")


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root, as in a container.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=find_browser(), args=arguments)
        yield browser
        browser.close()


@dataclass
class PageLog:
    """The network requests and console errors of a page."""

    address: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def keep(self, page: Page) -> None:
        page.on("request", lambda request: self.note_request(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.note_message(message.type, message.text))

    def note_request(self, url: str) -> None:
        if url.split("#")[0] != self.address and not url.startswith("data:"):
            self.requests.append(url)

    def note_message(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")


@pytest.fixture
def open_page(browser, page_file):
    """Opens the page with options of a browser context; checks its requests and errors at the end of the test."""
    opened = []

    def open_with(hash: str = "", path: Path = page_file, **options) -> Page:
        options = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce", **options}
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        account = PageLog(path.as_uri())
        account.keep(page)
        page.goto(path.as_uri() + hash)
        opened.append((context, account))
        page.account = account
        return page

    yield open_with
    for context, account in opened:
        context.close()
        assert account.requests == [], "the page made network requests"
        assert account.complaints == []


@pytest.fixture
def page(open_page) -> Page:
    return open_page()
