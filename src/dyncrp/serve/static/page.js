// The page: one stream at a time, its parts brought together.

import { Live, hasToken, ofStream, onToken, request } from "./api.js";
import { Announcer, Events } from "./events.js";
import { markOf, onSystemTheme, recolour } from "./marks.js";
import { Panel } from "./panel.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";
import { clockTime, count, number, plural, showTime, tableName, tableNameAndId, timeText } from "./words.js";

const $ = (id) => document.getElementById(id);
const OFTEN = 1000; // ms between two looks at the tables while rows come
const UNSEEN = 60_000; // ms that the page may be hidden before it gives up its connection
const SELDOM = 10_000; // ms between two looks at the list of streams

let stream = null; // the name of the one that is shown
let info = null; // what GET /streams/NAME says
let live = null;
let names = new Map(); // of tables, open or not
let clusters = new Map(); // of open tables

const remembered = {
  get: (key) => {
    try {
      return localStorage.getItem(`dyncrp-${key}`);
    } catch {
      return null;
    }
  },
  set: (key, value) => {
    try {
      localStorage.setItem(`dyncrp-${key}`, value);
    } catch {
      // Without storage the choice lasts until the page is closed.
    }
  },
};

const tables = new Tables({
  table: $("tables"),
  find: $("find"),
  note: $("tables-note"),
  chosen: choose,
  ticked: (ids) => {
    $("merge").disabled = ids.length !== 2;
    $("merge-hint").textContent = ids.length === 0
      ? "Tick two tables to merge them. Choose a name to see more and to rename it."
      : ids.length === 2 ? `Ticked: ${ids.map(nameOf).join(" and ")}.`
      : ids.length === 1 ? `Ticked: ${nameOf(ids[0])}. Tick one more to merge them.`
      : `${ids.length} tables are ticked: two are merged at a time.`;
  },
});
const timeline = new Timeline($("timeline"), {
  names: (id) => names.get(id) ?? null,
  clusters: (id) => clusters.get(id) ?? null,
  chosen: choose,
});
const events = new Events({ list: $("events"), note: $("events-note"), kinds: $("kinds"), chosen: choose });
const announcer = new Announcer($("announce"));
const panel = new Panel({
  dialog: $("panel"),
  body: $("panel-body"),
  form: $("rename"),
  said: $("rename-said"),
  renamed: () => refreshTables(),
  moved: select,
  closed: (id) => {
    select(null);
    tables.focus(id);
  },
});

function nameOf(id) {
  return tableName(id, names.get(id));
}

function select(id) {
  tables.select(id);
  timeline.selected = id;
  timeline.redraw();
}

function choose(id) {
  select(id);
  panel.open(stream, info?.clock, tables.get(id) ?? { id, name: names.get(id) });
}

// What is shown of a stream

/** Fetch everything: at the beginning, and whenever the connection was broken. */
async function fetchAll(name) {
  const [about, open, rows, happened] = await Promise.all([
    request(ofStream(name)),
    request(ofStream(name, "tables")),
    request(`${ofStream(name, "timeline")}?last=${timeline.size}`),
    request(`${ofStream(name, "events")}?limit=300`),
  ]);
  if (stream !== name) return;
  // A stream that was deleted and made again, or whose last rows were lost, begins anew.
  if (!info || info.clock !== about.clock || about.rows < info.rows) {
    for (const part of [timeline, tables, events]) part.clear(about.clock);
    names = new Map();
  }
  info = about;
  announcer.clock = about.clock;
  for (const event of happened.events) note(event);
  showTables(open.tables);
  timeline.replace(rows);
  events.replace(happened.events);
  showInfo();
  showLatest();
  fetchClusters(name);
  panel.refresh();
}

/** Take the facts from an event that concern other parts. */
function note(event) {
  if (event.name) names.set(event.table, event.name);
  else names.delete(event.table);
  if (event.kind === "alarm") timeline.alarm(event);
  if (event.kind === "merged") timeline.merged(event.what.merged, event.table);
}

function showTables(open) {
  clusters = new Map();
  for (const { id, name, cluster } of open) {
    if (name) names.set(id, name);
    else names.delete(id);
    if (cluster !== null && cluster !== undefined) clusters.set(id, cluster);
  }
  if (new Set(clusters.values()).size === clusters.size) clusters.clear(); // each alone: nothing to tell in the drawing
  tables.set(open);
  timeline.redraw();
}

async function fetchClusters(name) {
  let found = [];
  try {
    ({ clusters: found } = await request(ofStream(name, "clusters")));
  } catch {
    // While a stream has too few tables there are none.
  }
  if (stream !== name) return;
  const list = $("clusters").querySelector("ul");
  const alone = found.filter((cluster) => cluster.tables.length === 1).length;
  found = found.filter((cluster) => cluster.tables.length > 1);
  $("clusters").querySelector(".caption").textContent = !found.length
    ? "No two tables are in one cluster: clusters join tables that are alike."
    : alone ? `${plural(alone, "table is", "tables are")} alone in ${alone === 1 ? "its cluster" : "their clusters"}.` : "";
  // Buttons are made anew only when they must be, or they would vanish under the pointer every second.
  const shown = JSON.stringify(found.map(({ cluster, tables: ids }) => [cluster, ids.map(nameOf)]));
  if (list.dataset.shown !== shown) {
    list.dataset.shown = shown;
    showClusters(list, found);
  }
  found.forEach(({ rows }, i) => (list.children[i].querySelector("span").textContent = `, ${plural(rows, "row")}: `));
}

function showClusters(list, found) {
  list.replaceChildren(...found.map(({ cluster, tables: ids }) => {
    const item = document.createElement("li");
    const title = document.createElement("b");
    title.textContent = `Cluster ${cluster}`;
    item.append(title, document.createElement("span"));
    ids.slice(0, 40).forEach((id, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "open";
      button.append(markOf(id), nameOf(id));
      button.addEventListener("click", () => choose(id));
      item.append(i ? " " : "", button);
    });
    if (ids.length > 40) item.append(` and ${count(ids.length - 40)} more`);
    return item;
  }));
}

let refreshing = null;
let again = false;

/** Fetch the tables anew; while that is under way, further wishes become one. */
async function refreshTables() {
  if (refreshing) {
    again = true;
    return refreshing;
  }
  const name = stream;
  const begun = Date.now();
  refreshing = (async () => {
    try {
      const [about, open] = await Promise.all([request(ofStream(name)), request(ofStream(name, "tables"))]);
      if (stream !== name) return;
      info = about;
      showTables(open.tables);
      showInfo();
      await Promise.all([fetchClusters(name), panel.refresh()]);
    } catch {
      // The connection says so itself, and everything is fetched when it stands again.
    }
  })();
  await refreshing;
  refreshing = null;
  if (again && stream === name) {
    again = false;
    // A server that needs long is asked less often.
    setTimeout(() => soon(), 4 * (Date.now() - begun));
  }
}

let planned = null;
function soon() {
  planned ??= setTimeout(() => {
    planned = null;
    refreshTables();
  }, OFTEN);
}

async function refetchTimeline() {
  const name = stream;
  try {
    const rows = await request(`${ofStream(name, "timeline")}?last=${timeline.size}`);
    if (stream === name) timeline.replace(rows);
  } catch {
    // As above.
  }
  showLatest();
}

let refetching = null;
function refetchSoon() {
  refetching ??= setTimeout(() => {
    refetching = null;
    refetchTimeline();
  }, 2 * OFTEN);
}

function said(kind, data) {
  if (kind === "rows") {
    if (!timeline.add(data)) refetchSoon();
    info.rows = Math.max(info.rows, (data.rows.at(-1) ?? -1) + 1);
    info.latest_time = data.times.at(-1) ?? info.latest_time;
    showFacts();
    showLatest();
    soon();
  } else if (kind === "event") {
    note(data);
    if (events.add(data)) announcer.tell(data);
    soon();
  } else if (kind === "changed") {
    refreshTables();
    refetchTimeline();
  }
}

function showInfo() {
  $("learning").hidden = info.learned;
  $("learning").textContent = info.learned ? "" : `Warming up: ${plural(info.rows, "row")} so far. The ids of tables are provisional until the `
    + "model has learned what it was not told; then they are final, and rows are drawn.";
  if (!info.learned) soon(); // rows of the warm-up are no news of the connection, so they are asked for
  const caption = info.alarm_rate
    ? `▲ marks an alarm: a row more novel than all but about one in ${count(1 / info.alarm_rate)} of the rows before it.`
    : "This stream has no alarm_rate, so there are no alarms.";
  $("timeline-caption").textContent = caption;
  $("axis-label").hidden = info.clock === "index";
  showFacts();
}

function showFacts() {
  $("facts").textContent = `${plural(info.rows, "row")}, ${plural(info.tables, "open table")}`;
  $("facts").title = info.model ?? "";
  const link = $("streams").querySelector("[aria-current] span");
  if (link) link.textContent = ` ${plural(info.rows, "row")}, ${plural(info.tables, "table")}`;
}

function showLatest() {
  if (!$("latest").open) return;
  const cells = (row) => {
    const line = document.createElement("tr");
    const [at, when, table, novelty, p] = Array.from({ length: 5 }, () => document.createElement("td"));
    at.textContent = count(row.row);
    showTime(when, row.time);
    table.textContent = nameOf(row.table);
    novelty.textContent = number(row.novelty) + (timeline.alarms.has(row.row) ? " ▲ alarm" : "");
    p.textContent = number(row.p);
    for (const cell of [at, novelty, p]) cell.className = "number";
    line.append(at, when, table, novelty, p);
    return line;
  };
  $("latest").querySelector("tbody").replaceChildren(...timeline.rows.slice(-20).reverse().map(cells));
}

// The connection

let connection = { name: "connecting" };

function showState(state = connection) {
  connection = state;
  const last = info?.rows ? ` The last row shown is ${count(info.rows - 1)}${info.clock === "index" || info.latest_time === null ? "" : `, of ${timeText(info.latest_time, true)}`}.` : "";
  const texts = {
    connecting: () => "Connecting …",
    idle: () => "Connected",
    live: () => "Live",
    asleep: () => "Asleep while this tab is hidden",
    reconnecting: () => `${state.error ?? "Connection broken"} at ${clockTime(state.since)}: trying again.${last}`,
    lost: () => `${state.error ?? "Connection lost"} since ${clockTime(state.since)}: trying again every 15 seconds.${last}`,
    gone: () => "This stream has been deleted.",
  };
  const text = texts[state.name]();
  if ($("state-text").textContent !== text) $("state-text").textContent = text;
  $("state").dataset.state = state.name;
  $("retry").hidden = !["reconnecting", "lost"].includes(state.name);
  const stale = ["reconnecting", "lost", "gone"].includes(state.name);
  $("main").classList.toggle("stale", stale);
  $("merge-do").disabled = stale;
  if (state.name === "gone") listStreams();
}

function show(name) {
  if (name === stream) return;
  live?.stop();
  panel.close();
  announcer.clear();
  stream = name;
  info = null;
  $("stream-name").textContent = name === null ? "" : name;
  document.title = name === null ? "dyncrp" : `${name} – dyncrp`;
  $("main").hidden = true;
  $("facts").textContent = "";
  $("learning").hidden = true;
  if (name === null) return;
  live = new Live(name, {
    opened: async () => {
      await fetchAll(name);
      $("main").hidden = false;
      timeline.redraw();
    },
    said,
    state: (state) => {
      if (stream === name) showState(state);
    },
  });
}

// The streams

let listing = null;

async function listStreams() {
  clearTimeout(listing);
  $("metrics").hidden = hasToken(); // a link brings no token
  let found = null;
  try {
    ({ streams: found } = await request("streams"));
    if (stream === null) showState({ name: found.length ? "connecting" : "idle" });
  } catch {
    if (stream === null) showState({ name: "reconnecting", since: connection.since ?? Date.now() });
  }
  if (found) {
    const wanted = decodeURIComponent(location.hash.slice(1));
    const there = found.map(({ name }) => name);
    const name = there.includes(wanted) ? wanted : there.includes(stream) ? stream : (there[0] ?? null);
    showStreams(found, name);
    $("empty").hidden = found.length > 0;
    if (!found.length) showCommand();
    if (connection.name === "gone" && name === stream) {
      stream = null; // made again under the same name
    }
    show(name);
  }
  listing = setTimeout(listStreams, found?.length ? SELDOM : 2000);
}

function showStreams(found, current) {
  $("streams").hidden = found.length < 2;
  const list = $("streams").querySelector("ul");
  const text = JSON.stringify([found, current]);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  const held = document.activeElement?.closest?.("#streams a")?.hash;
  list.replaceChildren(...found.map(({ name, rows, tables: open }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `#${encodeURIComponent(name)}`;
    link.textContent = name;
    if (name === current) link.setAttribute("aria-current", "page");
    const facts = document.createElement("span");
    facts.textContent = ` ${plural(rows, "row")}, ${plural(open, "table")}`;
    link.append(facts);
    item.append(link);
    return item;
  }));
  if (held) [...list.querySelectorAll("a")].find((link) => link.hash === held)?.focus();
}

function showCommand() {
  const here = new URL("streams/doors", location.href).href.replace(/#.*/, "");
  const token = hasToken() ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const json = `-H 'Content-Type: application/json'`;
  $("empty-command").textContent = [
    `curl -X PUT ${here}${token} ${json} \\`,
    `     -d '{"features": ["x", "y"], "alarm_rate": 0.001, "n_examples": 5}'`,
    `curl -X POST ${here}/rows${token} ${json} \\`,
    `     -d '{"rows": [[0.1, 0.2], [5.0, 5.1]]}'`,
  ].join("\n");
}

// What is done by hand

$("merge").addEventListener("click", () => {
  const [a, b] = [...tables.ticks].sort((x, y) => x - y).map((id) => tables.get(id));
  const of = (table) => `${tableNameAndId(table.id, table.name)}, ${plural(table.rows, "row")}`;
  $("merge-text").textContent = `Merge ${of(a)}, and ${of(b)}? The older one, table ${a.id}, stays, and table ${b.id} answers with it from now on. This cannot be undone.`;
  $("merge-said").textContent = "";
  $("merge-dialog").dataset.tables = JSON.stringify([a.id, b.id]);
  $("merge-dialog").showModal();
  $("merge-cancel").focus();
});
$("merge-cancel").addEventListener("click", () => $("merge-dialog").close());
$("merge-do").addEventListener("click", async () => {
  const pair = JSON.parse($("merge-dialog").dataset.tables);
  $("merge-do").disabled = true;
  try {
    await request(ofStream(stream, "merge"), { method: "POST", body: { tables: pair } });
    $("merge-dialog").close();
    tables.untick();
    await refreshTables();
    tables.focus(pair[0]);
  } catch (error) {
    $("merge-said").textContent = error.message;
  } finally {
    $("merge-do").disabled = false;
  }
});

onToken((wasWrong) => new Promise((resolve) => {
  $("token-said").textContent = wasWrong ? "That token was not accepted." : "";
  $("token").value = "";
  if (!$("token-dialog").open) $("token-dialog").showModal();
  $("token-form").onsubmit = () => resolve($("token").value);
}));
$("token-dialog").addEventListener("cancel", (event) => event.preventDefault());

// Choices of the reader

const theme = $("theme");
theme.value = document.documentElement.dataset.theme ?? "auto";
function retheme() {
  recolour();
  timeline.redraw();
}
theme.addEventListener("change", () => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  remembered.set("theme", theme.value);
  retheme();
});
onSystemTheme(retheme);

for (const [id, apply] of [["window", (value) => (timeline.size = Number(value))], ["axis", (value) => (timeline.axis = value)]]) {
  const choice = $(id);
  const before = remembered.get(id);
  if ([...choice.options].some((option) => option.value === before)) choice.value = before;
  apply(choice.value);
  choice.addEventListener("change", () => {
    apply(choice.value);
    remembered.set(id, choice.value);
    if (stream !== null && info) refetchTimeline();
  });
}

$("pause").addEventListener("click", () => {
  const paused = !timeline.paused;
  timeline.pause(paused);
  $("pause").textContent = paused ? "Go on" : "Pause";
});
$("latest").addEventListener("toggle", showLatest);
$("retry").addEventListener("click", () => (stream === null ? listStreams() : live?.retry()));
addEventListener("hashchange", listStreams);
addEventListener("online", () => live?.retry());
let falling = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(falling);
  if (document.hidden) falling = setTimeout(() => live?.sleep(), UNSEEN);
  else live?.retry();
});

listStreams();
