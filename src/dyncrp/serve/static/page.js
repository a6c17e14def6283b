// The page: one stream at a time, its parts brought together.

import { Live, hasToken, ofStream, onToken, request } from "./api.js";
import { Alarms } from "./alarms.js";
import { Clusters, clusterName } from "./clusters.js";
import { Announcer, Events } from "./events.js";
import { assign, onSystemTheme, recolour } from "./marks.js";
import { Merging } from "./merging.js";
import { Panel } from "./panel.js";
import { showCommand, showStreams } from "./streams.js";
import { Strip } from "./strip.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";
import { clockTime, count, number, plural, showTime, tableName, timeText } from "./words.js";

const $ = (id) => document.getElementById(id);
const OFTEN = 1000; // ms between two looks at the tables while rows come
const UNSEEN = 60_000; // ms that the page may be hidden before it gives up its connection
const SELDOM = 10_000; // ms between two looks at the list of streams

let stream = null; // the name of the one that is shown
let info = null; // what GET /streams/NAME says
let live = null;
let connection = { name: "connecting" };
let names = new Map(); // of tables, open or not
let clusters = new Map(); // of open tables
let clusterNames = new Map();

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
      ? "Tables are the model's own unit; clusters join them. Tick two to merge or join them. Choose a name to see more and to rename it."
      : ids.length === 2 ? `Ticked: ${ids.map(nameOf).join(" and ")}.`
      : ids.length === 1 ? `Ticked: ${nameOf(ids[0])}. Tick one more to merge them.`
      : `${ids.length} tables are ticked: two are merged at a time.`;
  },
});
const timeline = new Timeline($("timeline"), {
  names: (id) => (timeline.by === "clusters" ? clusterNames.get(id) : null) ?? names.get(id) ?? null,
  clusters: (id) => clusters.get(id) ?? null,
  chosen: choose,
  zoomed: () => {
    $("zoom-out").hidden = !timeline.zoom;
    if (timeline.span) refetchTimeline();
  },
});
const clusterList = new Clusters({
  list: $("clusters").querySelector("ul"),
  note: $("clusters").querySelector(".caption"),
  chosen: choose,
  parted: async (pair) => {
    try {
      await request(ofStream(stream, "part"), { method: "POST", body: { tables: pair } });
    } catch (error) {
      $("clusters").querySelector(".caption").textContent = error.message;
    }
    await refreshTables();
  },
  spark: (ids) => timeline.spark(ids),
});
const alarms = new Alarms({
  list: $("alarms"),
  note: $("alarms-note"),
  kinds: $("alarm-kinds"),
  all: $("acknowledge-all"),
  chosen: choose,
  counted: (n) => {
    $("alarms-new").hidden = !n;
    $("alarms-new").textContent = n ? `${count(n)} new` : "";
    showTitle(n);
  },
  about: (id) => tables.get(id),
  called: (id, name) => clusterNames.get(clusters.get(id)) ?? names.get(id) ?? name ?? `cluster ${clusters.get(id) ?? id}`,
});
const merging = new Merging({
  dialog: $("merge-dialog"), text: $("merge-text"), body: $("merge-body"), said: $("merge-said"), cancel: $("merge-cancel"),
  join: $("merge-join"), merge: $("merge-do"), undoNote: $("undo-note"), undoText: $("undo-text"), undo: $("undo"),
}, {
  done: async (id) => {
    tables.untick();
    await refreshTables();
    if (id !== null) tables.focus(id);
  },
});
const events = new Events({ list: $("events"), note: $("events-note"), kinds: $("kinds"), chosen: choose, names: (id) => names.get(id) ?? null });
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

const strip = new Strip({
  parts: { rate: $("strip-rate"), age: $("strip-age"), clusters: $("strip-clusters"), alarms: $("strip-alarms"), expected: $("strip-expected") },
  changed: () => showState(),
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
    for (const part of [timeline, tables, events, clusterList, alarms]) part.clear(about.clock);
    names = new Map();
  }
  info = about;
  announcer.clock = about.clock;
  if (about.pulse) strip.beat(about.pulse);
  for (const event of happened.events) note(event);
  showTables(open.tables);
  timeline.replace(rows);
  if (timeline.span) refetchHistory(name);
  events.replace(happened.events);
  showInfo();
  showLatest();
  await fetchClusters(name);
  fetchAlarms(name);
  panel.refresh();
}

async function fetchAlarms(name) {
  try {
    await alarms.refresh(name, { named: info.features !== null, rate: info.alarm_rate });
  } catch {
    // The connection says so itself.
  }
}

function showTitle(n = 0) {
  document.title = `${n ? `(${count(n)}) ` : ""}${stream === null ? "dyncrp" : `${stream} – dyncrp`}`;
}

/** Take the facts from an event that concern other parts. */
function note(event) {
  if (event.name) names.set(event.table, event.name);
  else names.delete(event.table);
  if (event.kind === "alarm") timeline.alarm(event);
  if (["surge", "growing", "fading"].includes(event.kind)) timeline.surge(event);
  if (event.kind === "merged") timeline.merged(event.what.merged, event.table);
}

function showTables(open) {
  clusters = new Map();
  for (const { id, name, cluster } of open) {
    if (name) names.set(id, name);
    else names.delete(id);
    if (cluster !== null && cluster !== undefined) clusters.set(id, cluster);
  }
  showColours();
  tables.set(open);
  timeline.redraw();
  const now = JSON.stringify([...names]);
  if (now !== events.named) {
    events.named = now;
    events.show();
  }
}

/** Give colours to the clusters: first to those that are drawn, then to the largest. */
function showColours() {
  const drawn = (timeline.shown?.ids ?? []).filter((id) => id >= 0).map((id) => clusters.get(id) ?? id);
  const sizes = new Map();
  for (const { id, rows } of tables.all) sizes.set(clusters.get(id) ?? id, (sizes.get(clusters.get(id) ?? id) ?? 0) + rows);
  const largest = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a));
  assign(clusters, [...new Set([...drawn, ...largest])]);
}

async function fetchClusters(name) {
  let found = [];
  try {
    ({ clusters: found } = await request(ofStream(name, "clusters")));
  } catch {
    // While a stream has too few tables there are none.
  }
  if (stream !== name) return;
  if (!found.length) found = tables.all.map(aloneCluster).sort((a, b) => b.rows - a.rows); // of texts there are tables only
  clusterNames = new Map(found.filter(({ names: own }) => own?.length).map((one) => [one.cluster, clusterName(one)]));
  clusters = new Map(found.flatMap(({ cluster, tables: ids }) => ids.map((id) => [id, cluster])));
  strip.about(found.length, info.alarm_rate);
  showColours();
  clusterList.set(found, nameOf);
  recolour();
  timeline.redraw();
}

/** Return a table as a cluster of its own. */
function aloneCluster({ id, name, rows, share, last_seen, describes }) {
  const typical = typeof describes?.words === "string" ? [["", describes.words, null]] : [];
  return { cluster: id, tables: [id], names: name ? [name] : [], rows, share, last_seen, typical, by_hand: [] };
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
      if (alarms.stale) {
        alarms.stale = false;
        await fetchAlarms(name);
      }
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
    if (timeline.span) await refetchHistory(name);
  } catch {
    // As above.
  }
  showLatest();
}

async function refetchHistory(name) {
  const { span, zoom } = timeline;
  const query = zoom ? `begin=${zoom[0] / 1000}&end=${zoom[1] / 1000}` : span === Infinity ? "" : `span=${span}`;
  const told = await request(`${ofStream(name, "history")}?${query}`);
  if (stream !== name || timeline.span !== span || timeline.zoom !== zoom) return;
  timeline.history(told);
  requestAnimationFrame(() => clusterList.sparks());
}

let refetching = null;
function refetchSoon() {
  refetching ??= setTimeout(() => {
    refetching = null;
    refetchTimeline();
  }, 2 * OFTEN);
}

function said(kind, data) {
  if (kind === "beat") {
    strip.beat(data);
  } else if (kind === "rows") {
    strip.row();
    if (!timeline.add(data) || (timeline.span && !timeline.zoom)) refetchSoon();
    info.rows = Math.max(info.rows, (data.rows.at(-1) ?? -1) + 1);
    info.latest_time = data.times.at(-1) ?? info.latest_time;
    showFacts();
    showLatest();
    soon();
  } else if (kind === "event") {
    note(data);
    if (events.add(data)) announcer.tell(data);
    if (data.kind === "alarm") alarms.stale = true;
    soon();
  } else if (kind === "changed") {
    alarms.stale = true; // somebody may have acknowledged some
    refreshTables();
    refetchTimeline();
  }
}

function showInfo() {
  $("learning").hidden = info.learned;
  if (!info.learned) showWarmup(info.warmup);
  merging.offer(stream, info.undo, nameOf);
  if (!info.learned) soon(); // rows of the warm-up are no news of the connection, so they are asked for
  const caption = info.alarm_rate
    ? `▲ marks an alarm: a row more novel than all but about one in ${count(1 / info.alarm_rate)} of the rows before it.`
    : "This stream has no alarm_rate, so there are no alarms.";
  const surges = info.surge_rate ? " ⇈ marks a surge, ↗ a table that is growing, ↘ one that is fading." : "";
  $("timeline-caption").textContent = `${caption}${surges} Drag across the drawing to zoom in; double-click or press Escape to go back.`;
  showAxis();
  showFacts();
}

function showWarmup(warmup) {
  const [text, bar] = $("learning").children;
  const enough = warmup && warmup.rows >= warmup.needed;
  const so = !warmup ? `${plural(info.rows, "row")} so far`
    : warmup.error ? warmup.error
    : enough || warmup.searching ? `${plural(warmup.rows, "row")} have come; the model is being learned from them`
    : `${count(warmup.rows)} of ${plural(warmup.needed, "row")}${warmup.seconds_left > 0 ? `, or ${plural(warmup.seconds_left, "second")} more` : ""}`;
  text.textContent = `Warming up: ${so}. The ids of tables are provisional until then; afterwards they are final, and rows are drawn.`;
  bar.hidden = !warmup;
  if (warmup) bar.value = Math.min(1, warmup.rows / Math.max(1, warmup.needed));
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

function showState(state = connection) {
  connection = state;
  const last = info?.rows ? ` The last row shown is ${count(info.rows - 1)}${info.clock === "index" || info.latest_time === null ? "" : `, of ${timeText(info.latest_time, true)}`}.` : "";
  const why = state.error ? ` (${state.error})` : "";
  const texts = {
    connecting: () => "Connecting …",
    idle: () => "Connected",
    live: () => "Live",
    quiet: () => (strip.age() === null ? "Quiet: no row since the server started" : "Quiet: no new row"),
    silent: () => `No word from the server for ${strip.silence()} s`,
    paused: () => "Paused: the drawing stands still",
    asleep: () => "Asleep while this tab is hidden",
    reconnecting: () => `Disconnected at ${clockTime(state.since)}${why}: trying again.${last}`,
    lost: () => `Disconnected since ${clockTime(state.since)}${why}: trying again every 15 seconds.${last}`,
    gone: () => "This stream has been deleted.",
  };
  // What the connection says is that it stands; whether rows come over it is another matter.
  let shown = state.name === "live" ? strip.state() : state.name;
  if (timeline.paused && ["live", "quiet"].includes(shown)) shown = "paused";
  const text = texts[shown]();
  if ($("state-text").textContent !== text) $("state-text").textContent = text;
  $("state").dataset.state = shown;
  $("strip").dataset.state = shown;
  $("retry").hidden = !["reconnecting", "lost"].includes(state.name);
  const stale = ["silent", "reconnecting", "lost", "gone"].includes(shown);
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
  showTitle();
  $("main").hidden = $("strip").hidden = true;
  strip.clear();
  $("facts").textContent = "";
  $("learning").hidden = true;
  if (name === null) return;
  live = new Live(name, {
    opened: async () => {
      await fetchAll(name);
      $("main").hidden = $("strip").hidden = false;
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

// What is done by hand

$("merge").addEventListener("click", () => {
  const [a, b] = [...tables.ticks].sort((x, y) => x - y).map((id) => tables.get(id));
  merging.open(stream, a, b);
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

function showRange(value) {
  const [kind, size] = value.split(" ");
  timeline.range({ [kind]: Number(size) });
  $("zoom-out").hidden = true;
  showAxis();
}

function showAxis() {
  $("axis-label").hidden = timeline.span !== null || !info || info.clock === "index";
}

const choices = [
  ["window", showRange],
  ["axis", (value) => (timeline.axis = value)],
  ["by", (value) => (timeline.by = value)],
];
for (const [id, apply] of choices) {
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
  showState();
});
$("latest").addEventListener("toggle", showLatest);
$("zoom-out").addEventListener("click", () => timeline.zoomOut());
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) timeline.zoomOut();
});
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
