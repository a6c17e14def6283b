"""The page in a real browser; see ``browsing``."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from browsing import broken_connections, colours, expect, is_live, line, needs_browser, visits

STATIC = Path(__file__).parents[2] / "src" / "dyncrp" / "serve" / "static"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


class TestPage:
    pytestmark = needs_browser

    def test_rows_arrive_and_are_drawn(self, server, visit):
        server.make("arrive")
        server.send("arrive", visits(2, 20, 4))
        page = visit(server, "arrive", reduced_motion="reduce", color_scheme="light")
        is_live(page)
        expect(page.locator("canvas")).to_have_attribute("data-last", "79")
        expect(page.locator("#tables tbody tr")).to_have_count(2)
        assert {"#0072b2", "#c27c00"} <= set(colours(page))
        assert "#008a64" not in colours(page)

        server.send("arrive", visits(3, 20, 3, seed=1))
        expect(page.locator("canvas")).to_have_attribute("data-last", "139")
        expect(page.locator("canvas")).to_have_attribute("aria-label", re.compile("rows 0 to 139: which of 3 clusters"))
        expect(page.locator("#tables tbody tr")).to_have_count(3)
        expect(page.locator("#facts")).to_have_text("140 rows, 3 open tables")
        assert {"#0072b2", "#c27c00", "#008a64"} <= set(colours(page))
        for id, table in server.tables("arrive").items():
            expect(line(page, id).locator("td").nth(1)).to_have_text(str(table["rows"]))
        expect(page.locator("#events li[data-kind=opened]")).to_have_count(3)
        expect(page.locator("#announce")).to_contain_text("table 2 opened.")

        page.get_by_role("button", name="First seen").click()
        expect(page.locator("th[aria-sort=ascending]")).to_have_text("First seen")
        seen = [table["first_seen"] for table in server.tables("arrive").values()]
        assert page.locator("#tables tbody tr td:nth-child(5)").all_inner_texts() == [f"{t:g}" for t in sorted(seen)]

    def test_an_alarm_is_shown_by_its_shape_in_words_and_aloud(self, server, visit):
        server.make("alarms")
        server.send("alarms", visits(2, 50, 20))
        page = visit(server, "alarms", reduced_motion="reduce", color_scheme="light")
        is_live(page)
        before = int(page.locator("canvas").get_attribute("data-alarms"))
        answer = server.send("alarms", [[300.0, 300.0]])
        assert [event["kind"] for event in answer["events"]].count("alarm") == 1
        newest = page.locator("#events li[data-kind=alarm]").first
        expect(newest).to_contain_text("row 1,000 is unusual")
        expect(page.locator("canvas")).to_have_attribute("data-alarms", str(before + 1))
        assert "#b3001b" in colours(page)
        expect(page.locator("#announce")).to_contain_text("Alarm: row 1,000")
        page.select_option("#kinds", "alarm")
        assert page.locator("#events li").count() == before + 1

    def test_rename_and_merge_reach_the_model_and_outlast_a_reload_and_a_restart(self, serve, visit):
        server = serve()
        server.make("doors")
        server.send("doors", visits(4, 20, 4))
        page = visit(server, "doors")
        is_live(page)
        line(page, 1).get_by_role("button").click()
        panel = page.get_by_role("dialog")
        expect(panel.get_by_text("The latest", exact=True)).to_be_visible()
        page.get_by_label("Name").fill("front door")
        page.get_by_role("button", name="Rename").click()
        expect(page.locator("#rename-said")).to_have_text("Table 1 is now called “front door”.")
        expect(line(page, 1)).to_contain_text("front door")
        assert server.tables("doors")[1]["name"] == "front door"

        line(page, 2).get_by_role("button").click()
        page.get_by_label("Name").fill("front door")
        page.get_by_role("button", name="Rename").click()
        expect(page.locator("#rename-said.error")).to_contain_text("front door")  # the name is another's
        page.watched.errors.clear()  # the browser notes the refusal
        page.get_by_role("button", name="Close").click()

        line(page, 1).get_by_role("checkbox").check()
        expect(page.locator("#merge")).to_be_disabled()
        line(page, 3).get_by_role("checkbox").check()
        page.locator("#merge").click()
        expect(page.locator("#merge-text")).to_contain_text("front door (table 1), 20 rows, and table 3, 20 rows?")
        page.locator("#merge-cancel").click()
        assert set(server.tables("doors")) == {0, 1, 2, 3}
        page.locator("#merge").click()
        page.locator("#merge-do").click()
        expect(page.locator("#tables tbody tr")).to_have_count(3)
        expect(page.locator("#events li[data-kind=merged]")).to_contain_text("table 3 merged into")
        tables = server.tables("doors")
        assert {id: table["rows"] for id, table in tables.items()} == {0: 20, 1: 40, 2: 20}

        def shown():
            is_live(page)
            expect(page.locator("canvas")).to_have_attribute("data-last", "79")
            expect(line(page, 1)).to_contain_text("front door")
            return page.locator("#tables tbody").inner_text(), page.locator("#events").inner_text()

        before = shown()
        page.reload()
        assert shown() == before
        server.stop()
        expect(page.locator("#state[data-state=reconnecting]")).to_be_visible()
        server.start()
        assert shown() == before
        page.reload()
        assert shown() == before
        assert server.tables("doors") == tables
        broken_connections(page)

    def test_a_lost_connection_is_said_and_what_was_missed_is_fetched(self, serve, visit):
        server = serve()
        server.make("far")
        server.send("far", visits(2, 10, 2))
        page = visit(server, "far")
        is_live(page)
        server.stop(signal.SIGKILL)
        state = page.locator("#state")
        expect(state).to_contain_text(re.compile(r"Disconnected at \d\d:\d\d:\d\d: trying again"))
        expect(state).to_contain_text("The last row shown is 19")
        expect(page.locator("main")).to_have_class("stale")
        expect(page.locator("#tables")).to_have_css("filter", "grayscale(1)")
        line(page, 0).get_by_role("button").click()
        page.get_by_label("Name").fill("nobody hears")
        page.get_by_role("button", name="Rename").click()
        expect(page.locator("#rename-said")).to_have_text("The server cannot be reached.")
        server.start()
        server.send("far", visits(3, 10, 3))
        page.locator("#retry").dispatch_event("click")  # it is hidden if the page has tried by itself meanwhile
        is_live(page)
        expect(page.locator("canvas")).to_have_attribute("data-last", "49")
        expect(page.locator("#tables tbody tr")).to_have_count(3)
        expect(page.locator("main")).not_to_have_class("stale")
        broken_connections(page)

    def test_a_hidden_tab_gives_up_its_connection_until_it_is_seen(self, server, visit):
        server.make("hidden")
        server.send("hidden", visits(2, 10, 2))
        page = visit(server)
        page.clock.install()
        page.goto(f"{server.url}#hidden")
        page.reload()
        is_live(page)
        hide = """(hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        page.evaluate(hide, True)
        page.clock.fast_forward(61_000)
        expect(page.locator("#state")).to_have_text("Asleep while this tab is hidden")
        server.send("hidden", visits(2, 10, 2))
        page.evaluate(hide, False)
        is_live(page)
        expect(page.locator("canvas")).to_have_attribute("data-last", "39")

    def test_names_are_texts_whatever_they_say(self, server, visit):
        server.make("hostile", features=[HOSTILE, "height"])
        server.send("hostile", visits(2, 10, 2))
        server("POST", "streams/hostile/rename", {"table": 0, "name": HOSTILE})
        page = visit(server, "hostile")
        is_live(page)
        line(page, 0).get_by_role("button").click()
        expect(page.locator("#panel-title")).to_contain_text(HOSTILE)
        expect(page.locator("#panel-body th").filter(has_text=HOSTILE).first).to_be_visible()
        line(page, 0).get_by_role("checkbox").check()
        line(page, 1).get_by_role("checkbox").check()
        page.locator("#merge").click()
        expect(page.locator("#merge-text")).to_contain_text(HOSTILE)
        page.locator("#merge-cancel").click()
        page.get_by_label("Name").fill(HOSTILE + "<script>document.title='hacked'</script>")
        page.get_by_role("button", name="Rename").click()
        expect(page.locator("#events li[data-kind=renamed]").first).to_contain_text("<script>")
        page.locator("#latest summary").click()
        assert page.locator("img, body script").count() == 0
        expect(page).to_have_title("hostile – dyncrp")

    def test_the_keyboard_is_enough(self, server, visit):
        server.make("keys")
        server.send("keys", visits(3, 10, 3))
        page = visit(server, "keys")
        is_live(page)
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the clusters")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the tables")).to_be_focused()
        page.keyboard.press("Enter")
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.locator("#tables tbody :focus").count():
                break
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        expect(line(page, 1).get_by_role("button")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#panel-title")).to_be_focused()
        for _ in range(2):  # past the button that closes it
            page.keyboard.press("Tab")
        page.keyboard.type("back door")
        page.keyboard.press("Enter")
        expect(line(page, 1)).to_contain_text("back door")
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        expect(line(page, 1).get_by_role("button")).to_be_focused()
        assert server.tables("keys")[1]["name"] == "back door"

        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        for _ in range(20):
            page.keyboard.press("Shift+Tab")
            if page.locator("#merge:focus").count():
                break
        page.keyboard.press("Enter")
        expect(page.locator("#merge-cancel")).to_be_focused()
        for _ in range(2):  # past the button that joins them
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#tables tbody tr")).to_have_count(2)

    def test_dates_are_local_and_utc_is_told(self, server, visit):
        server.make("dated")
        times = (np.datetime64("2024-03-01T23:30:00") + np.arange(40) * np.timedelta64(60, "s")).astype(str).tolist()
        server.send("dated", visits(2, 20, 2), times=times)
        page = visit(server, "dated", timezone_id="Asia/Tokyo")
        is_live(page)
        first = line(page, 0).locator("td").nth(3)
        expect(first).to_have_text("2 Mar 2024, 08:30:00")
        expect(first).to_have_attribute("title", "2024-03-01 23:30:00 UTC")

    def test_a_token_is_asked_for_and_without_a_stream_the_page_says_how_to_make_one(self, serve, visit):
        token = "open-sesame-open-sesame"
        server = serve("--token", token)
        page = visit(server)
        page.get_by_role("textbox", name="Token").fill("a guess")
        page.keyboard.press("Enter")
        expect(page.get_by_text("That token was not accepted.")).to_be_visible()
        page.get_by_role("textbox", name="Token").fill(token)
        page.keyboard.press("Enter")
        empty = page.get_by_role("heading", name="No stream yet")
        expect(empty).to_be_visible()
        page.reload()  # the token is kept
        expect(empty).to_be_visible()
        commands = page.locator("#empty-command").inner_text()
        assert f"curl -X PUT {server.url}streams/doors" in commands
        if shutil.which("curl"):
            environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
            environment["TOKEN"] = token
            subprocess.run(["sh", "-ec", commands], check=True, capture_output=True, env=environment)
            is_live(page)
            expect(page.locator("#facts")).to_contain_text("2 rows")
            expect(page.locator("#learning")).to_contain_text("provisional")
            server("POST", "streams/doors/rows", {"rows": [[0.0, 0.0]] * 3}, token)
            expect(page.locator("#learning")).to_contain_text("Warming up: 5 of")
        page.watched.errors = [text for text in page.watched.errors if "401" not in text]

    def test_there_may_be_several_streams_and_one_may_go(self, server, visit):
        for name, n in (("first", 2), ("second", 3)):
            server.make(name)
            server.send(name, visits(n, 10, n))
        page = visit(server, "first")
        is_live(page)
        expect(page.locator("#facts")).to_have_text("20 rows, 2 open tables")
        page.get_by_role("navigation").get_by_role("link", name="second").click()
        expect(page.locator("#facts")).to_have_text("30 rows, 3 open tables")
        expect(page.locator("#tables tbody tr")).to_have_count(3)
        server("DELETE", "streams/second")
        expect(page.get_by_role("navigation").get_by_role("link", name="second")).to_have_count(0)
        expect(page.locator("#stream-name")).not_to_have_text("second")
        is_live(page)
        broken_connections(page)
        page.watched.errors = [text for text in page.watched.errors if "404" not in text]

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_texts_stand_out_in_both_themes(self, server, visit, theme):
        server.make("contrast")
        server.send("contrast", visits(2, 10, 2))
        page = visit(server, "contrast", color_scheme="light" if theme == "dark" else "dark")
        is_live(page)
        page.select_option("#theme", theme)
        line(page, 0).get_by_role("button").click()
        expect(page.locator("#panel-body dl")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == theme
        page.reload()
        is_live(page)
        line(page, 0).get_by_role("button").click()
        expect(page.locator("#panel-body dl")).to_be_visible()
        faint = page.evaluate(FAINT)
        assert len(faint["seen"]) > 40
        assert faint["faint"] == []

    def test_a_phone_shows_all_of_it_without_scrolling_sideways(self, server, visit):
        server.make("phone")
        server.send("phone", visits(2, 10, 2))
        name = "a name that is much too long for a phone " * 3
        server("POST", "streams/phone/rename", {"table": 0, "name": name.strip()})
        page = visit(server, "phone", viewport={"width": 360, "height": 800}, has_touch=True, is_mobile=True)
        is_live(page)
        sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(sideways) == 0
        line(page, 0).get_by_role("button").tap()
        expect(page.locator("#panel:modal")).to_be_visible()
        expect(page.locator("#panel-body dl")).to_be_visible()
        box = page.locator("#panel").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
        page.get_by_role("button", name="Close").tap()
        expect(page.locator("#panel")).to_be_hidden()

    def test_a_phone_shows_long_dates_and_the_names_of_tables_whole(self, server, visit):
        server.make("old")
        times = (np.datetime64("2013-02-22T01:00:00") + np.arange(20) * np.timedelta64(1, "h")).astype(str).tolist()
        server.send("old", visits(2, 10, 2), times=times)
        page = visit(server, "old", viewport={"width": 360, "height": 800}, has_touch=True, is_mobile=True)
        expect(line(page, 0)).to_contain_text("2013")
        assert page.locator(".frame").evaluate("frame => frame.scrollWidth - frame.clientWidth") == 0
        one_line = "span => span.getClientRects().length === 1 && span.offsetHeight < 30"
        assert line(page, 1).get_by_text("table 1").evaluate(one_line)


# Every text against what is behind it, by WCAG's formula: at least 4.5 to 1, but for what is disabled.
FAINT = """() => {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const seen = [], faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].map((node) => (node.nodeType === 3 ? node.data : "")).join("").trim();
    if (!text || !element.checkVisibility() || element.matches(":disabled, option, noscript, .skip, .hidden")) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    seen.push(text);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push([text, (a + 0.05) / (b + 0.05)]);
  }
  return { seen, faint };
}"""


def test_the_page_holds_nothing_inline_and_nothing_of_other_hosts():
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn", text), path
        assert not re.search(r"(inner|outer|Adjacent)HTML|document\.write|\beval\(|new Function", text), path
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)
    for name in re.findall(r'(?:src|href)="static/([^"]+)"', html):
        assert (STATIC / name).is_file()
