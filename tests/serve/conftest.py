"""A browser and servers for the tests of the page."""

import pytest

from browsing import ARGUMENTS, CHROMIUM, PAGE_PATIENCE, Server, Watched, sync_playwright


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("served") / "streams")
    yield server
    server.stop()


@pytest.fixture
def serve(tmp_path):
    """Return a function that starts a server for one test, which may stop it."""
    started = []

    def serve(*options):
        started.append(Server(tmp_path / "streams", *options))
        return started[-1]

    yield serve
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture
def visit(browser):
    """Return a function that opens the page; at the end there may be no error on its console and no other host."""
    opened = []

    def visit(server, stream="", **context):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        context.set_default_timeout(PAGE_PATIENCE)
        page = context.new_page()
        page.watched = Watched(page, server.url)
        opened.append((context, page))
        page.goto(f"{server.url}#{stream}")
        return page

    yield visit
    for context, page in opened:
        context.close()
        assert page.watched.errors == []
        assert page.watched.strangers == []
