"""What tells a reader who keeps the page open how the stream is doing."""

import os
import re
import signal

import numpy as np
import pytest

from browsing import PLACES, broken_connections, expect, is_live, line, needs_browser, visits

pytestmark = needs_browser


class TestStrip:
    def test_it_tells_the_rate_the_age_the_clusters_and_the_alarms(self, server, visit):
        server.make("strip", alarm_rate=0.05)
        server.send("strip", visits(2, 50, 20))
        page = visit(server, "strip")
        is_live(page)
        expect(page.locator("#strip-clusters")).to_have_text("2")
        alarms = server("GET", "streams/strip")["pulse"]["hour"]["alarms"]
        expect(page.locator("#strip-alarms")).to_have_text(str(alarms))
        expect(page.locator("#strip-expected")).to_have_text("50 expected of 1,000 rows")
        expect(page.locator("#strip-age")).to_have_text(re.compile(r"just now|\d+ s ago"))

    def test_silence_is_amber_and_a_pause_is_no_live_drawing(self, server, visit):
        server.make("quiet")
        server.send("quiet", visits(2, 10, 2))
        page = visit(server, "quiet")
        state = page.locator("#state")
        expect(state).to_have_text("Quiet: no new row")  # five seconds after the last one
        expect(page.locator("#strip-rate")).to_have_text("0")
        server.send("quiet", visits(2, 10, 2))
        expect(state).to_have_text("Live")
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("Paused: the drawing stands still")
        page.get_by_role("button", name="Go on").click()
        expect(state).not_to_contain_text("Paused")

    def test_a_frozen_server_is_not_called_live(self, serve, visit):
        server = serve()
        server.make("frozen")
        server.send("frozen", visits(2, 10, 2))
        page = visit(server, "frozen")
        is_live(page)
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            expect(page.locator("#state")).to_contain_text("No word from the server for")
            expect(page.locator("main")).to_have_class("stale")
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        is_live(page)
        broken_connections(page)


def by_minutes(n, begin="2026-03-02T07:30:00"):
    return (np.datetime64(begin) + np.arange(n) * np.timedelta64(60, "s")).astype(str).tolist()


def drawn(page, n):
    expect(page.locator("canvas")).to_have_attribute("data-rows", n if isinstance(n, re.Pattern) else str(n))


class TestRanges:
    def test_a_range_is_what_it_says_and_dragging_zooms(self, server, visit):
        server.make("ranges")
        server.send("ranges", visits(2, 100, 30), times=by_minutes(3000))
        page = visit(server, "ranges", reduced_motion="reduce", timezone_id="UTC")
        is_live(page)
        drawn(page, 2000)
        page.select_option("#window", label="500 rows")
        drawn(page, 500)
        page.select_option("#window", label="15 minutes")
        drawn(page, 16)  # both ends are in it
        page.select_option("#window", label="a day")
        drawn(page, re.compile(r"14\d\d"))
        page.select_option("#window", label="everything")
        drawn(page, 3000)
        box = page.locator("canvas").bounding_box()
        middle = box["y"] + 30
        page.mouse.move(box["x"] + 500, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 600, middle, steps=4)
        page.mouse.up()
        expect(page.locator("canvas")).to_have_attribute("data-zoomed", "true")
        drawn(page, re.compile(r"[2-5]\d\d"))  # of some 1,000 pixels
        page.keyboard.press("Escape")
        drawn(page, 3000)
        page.select_option("#window", label="2,000 rows")
        drawn(page, 2000)
        page.mouse.move(box["x"] + 500, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 600, middle, steps=4)
        page.mouse.up()
        drawn(page, re.compile(r"[12]\d\d"))
        page.get_by_role("button", name="Zoom out").click()
        drawn(page, 2000)

    def test_rows_without_dates_are_drawn_by_when_they_came(self, server, visit):
        server.make("arrivals")
        server.send("arrivals", visits(2, 10, 4))
        page = visit(server, "arrivals", reduced_motion="reduce")
        is_live(page)
        page.select_option("#window", label="15 minutes")
        drawn(page, 40)
        server.send("arrivals", visits(2, 10, 4))
        drawn(page, 80)


class TestAlarms:
    def test_an_alarm_is_listed_with_its_row_and_why_and_is_acknowledged(self, server, visit):
        server.make("alarmed")
        server.send("alarmed", visits(2, 50, 20))
        told = server("GET", "streams/alarmed/alarms")["alarms"]
        if told:
            server("POST", "streams/alarmed/acknowledge", {"alarms": [alarm["id"] for alarm in told]})
        page = visit(server, "alarmed")
        is_live(page)
        expect(page).to_have_title("alarmed – dyncrp")
        server.send("alarmed", [[-20.0, 77.0]])
        expect(page).to_have_title("(1) alarmed – dyncrp")
        alarm = page.locator("#alarms li")
        expect(alarm).to_have_count(1)
        expect(alarm).to_contain_text("width -20, height 77")
        alarm.get_by_role("button", name="Why is row 1,000 unusual?").click()
        expect(alarm).to_contain_text("joined cluster 2")
        expect(alarm.locator(".why caption")).to_contain_text("It fitted no cluster. The next is cluster")
        why = alarm.locator(".why tbody tr").first
        expect(why).to_contain_text("height")
        expect(why).to_contain_text("77")
        alarm.get_by_role("button", name="Acknowledge the alarm of row 1,000").click()
        expect(page).to_have_title("alarmed – dyncrp")
        expect(alarm).to_have_count(0)
        page.reload()
        is_live(page)
        expect(page.locator("#alarms-note")).to_have_text("No new alarm: all have been acknowledged.")
        page.select_option("#alarm-kinds", "all")
        expect(page.locator("#alarms li").first).to_contain_text("acknowledged")

    def test_a_row_that_joined_a_small_cluster_is_not_said_to_fit_none(self, server, visit):
        server.make("small")
        server.send("small", np.concatenate([visits(2, 50, 20), [[-20.0, 77.0]]]))
        answer = server.send("small", np.concatenate([visits(2, 50, 10), [[-20.0, 79.5]]]))
        assert [(event["kind"], event["table"]) for event in answer["events"]][-1] == ("alarm", 2)
        page = visit(server, "small")
        is_live(page)
        page.get_by_role("button", name="Why is row 1,501 unusual?").click()
        expect(page.locator(".why caption")).to_contain_text("It joined cluster 2, which has few rows. The next is ")
        expect(page.locator("#clusters li").last.locator(".rows")).to_have_text("2 rows, 0.1%")


class TestEvents:
    def test_returns_of_one_table_are_one_line(self, server, visit):
        server.make("back", dynamics="0.99*exponential(5) + 0.01*stationary()")
        server.send("back", visits(2, 30, 8))
        page = visit(server, "back")
        is_live(page)
        lines = page.locator("#events li[data-kind=returned]")
        expect(lines).to_have_count(2)
        expect(lines.filter(has_text="table 0")).to_contain_text("table 0 returned 3 times, lately after")
        server.send("back", visits(1, 30, 1))
        expect(lines.filter(has_text="table 0")).to_contain_text("table 0 returned 4 times")
        expect(lines).to_have_count(2)
        page.select_option("#kinds", "returned")
        expect(lines).to_have_count(7)


class TestClusters:
    def test_each_has_what_is_typical_of_it_and_its_rows_over_time(self, server, visit):
        server.make("typical")
        server.send("typical", np.concatenate([visits(1, 60, 1), PLACES[1] + np.zeros((20, 2))]))
        page = visit(server, "typical", reduced_motion="reduce")
        is_live(page)
        first = page.locator("#clusters li").first
        expect(first).to_contain_text("cluster 0")
        expect(first).to_contain_text("60 rows")
        expect(first.locator(".typical")).to_contain_text("height")
        expect(first.locator(".spark")).to_have_attribute(
            "aria-label", "60 rows in what is drawn, in 75 % of that time"
        )

    def test_no_two_share_a_colour_up_to_twelve(self, server, visit):
        server.make("many", set={"variance": 1.0, "prior_variance": 1e4})
        angles = np.linspace(0, 2 * np.pi, 14, endpoint=False)
        places = 100.0 * np.column_stack([np.cos(angles), np.sin(angles)])
        sizes = np.arange(40, 12, -2)
        server.send("many", np.repeat(places, sizes, axis=0))
        page = visit(server, "many")
        is_live(page)
        expect(page.locator("#clusters li")).to_have_count(14)
        fills = page.locator("#clusters .head .mark path").evaluate_all(
            "all => all.map((one) => one.getAttribute('fill'))"
        )
        assert len(set(fills)) == 13  # twelve colours, and grey for the two smallest
        assert fills[-1] == fills[-2]


class TestMerging:
    def test_it_tells_how_far_apart_joins_instead_and_undoes(self, server, visit):
        server.make("merging")
        server.send("merging", visits(3, 20, 3))
        page = visit(server, "merging")
        is_live(page)
        line(page, 0).get_by_role("checkbox").check()
        line(page, 2).get_by_role("checkbox").check()
        page.locator("#merge").click()
        expect(page.locator("#merge-body")).to_contain_text("They are far apart")
        expect(page.locator("#merge-body tbody tr").first).to_contain_text("width")
        page.get_by_role("button", name="Join in one cluster").click()
        expect(page.locator("#clusters li")).to_have_count(2)
        assert set(server.tables("merging")) == {0, 1, 2}
        page.get_by_role("button", name="Take apart").click()
        expect(page.locator("#clusters li")).to_have_count(3)
        line(page, 0).get_by_role("checkbox").check()
        line(page, 2).get_by_role("checkbox").check()
        page.locator("#merge").click()
        page.locator("#merge-do").click()
        expect(page.locator("#tables tbody tr")).to_have_count(2)
        server.send("merging", visits(3, 5, 3))
        page.get_by_role("button", name="Undo the merge").click()
        expect(page.locator("#tables tbody tr")).to_have_count(3)
        expect(page.locator("#events li[data-kind=unmerged]")).to_contain_text(
            "table 2 is no longer merged into table 0"
        )
        assert {id: table["rows"] for id, table in server.tables("merging").items()} == {0: 25, 1: 25, 2: 25}


class TestAxe:
    """Accessibility as axe-core sees it."""

    @pytest.mark.parametrize("width", [1280, 360])
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_nothing_is_found(self, server, visit, theme, width):
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        server.make("axe")
        if not server("GET", "streams/axe")["rows"]:
            server.send("axe", np.concatenate([visits(3, 20, 6), [[90.0, 90.0]]]), times=by_minutes(121))
        page = visit(
            server, "axe", color_scheme=theme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
        )
        is_live(page)
        expect(page.locator("#alarms li").first).to_be_visible()
        expect(page.locator("#clusters li").first).to_be_visible()
        page.locator("#alarms").get_by_role("button", name="Why").first.click()
        expect(page.locator(".why")).to_be_visible()
        found = {"page": axe.run(page).response["violations"]}
        line(page, 0).get_by_role("checkbox").check()
        line(page, 1).get_by_role("checkbox").check()
        page.locator("#merge").click()
        expect(page.locator("#merge-body table")).to_be_visible()
        found["merging"] = axe.run(page).response["violations"]
        page.locator("#merge-cancel").click()
        line(page, 0).get_by_role("button").click()
        expect(page.locator("#panel-body dl")).to_be_visible()
        found["panel"] = axe.run(page).response["violations"]
        said = {part: [(one["id"], one["nodes"][0]["html"]) for one in some] for part, some in found.items()}
        assert said == {"page": [], "merging": [], "panel": []}
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


class TestSurges:
    def test_a_surge_is_an_event_and_a_mark_on_the_drawing(self, server, visit):
        server.make("surges", surge_rate=0.0005, alarm_rate=None)
        rng = np.random.default_rng(0)
        places = rng.integers(4, size=10_240)
        places[9730:] = np.where(rng.random(510) < 0.7, 2, places[9730:])
        server.send("surges", PLACES[places] + rng.normal(size=(len(places), 2)))
        told = [one for one in server("GET", "streams/surges/events")["events"] if one["kind"] == "surge"]
        assert told[-1]["row"] == 10_239
        page = visit(server, "surges")
        is_live(page)
        page.locator("#kinds").select_option("surges")
        first = page.locator("#events li").first
        what = told[-1]["what"]
        of = f"cluster of table {told[-1]['table']}"
        expect(first).to_contain_text(
            f"{of} surges: {what['count']} rows of the latest 512, {what['expected']:.0f} expected"
        )
        expect(page.locator("canvas").first).to_have_attribute("data-surges", re.compile("[1-9]"))
        expect(page.locator("#timeline-caption")).to_contain_text("⇈ marks a surge")
