// The list of the open tables: sorted by a column, found by a word, chosen by mouse or keyboard, ticked to be merged.

import { markOf } from "./marks.js";
import { asNumber, count, plural, share, showTime, tableName } from "./words.js";

const MOST = 200; // rows of the list: more are found by their name

const MOST_WORDS = 3; // of a table of texts

/** Return the first words of a table of texts; its description has nothing but words. */
function topicOf({ describes }) {
  const words = describes?.words;
  if (typeof words !== "string" || Object.keys(describes).length > 1) return "";
  return words.split(", ").slice(0, MOST_WORDS).map((word) => word.replace(/ \(.*/, "")).join(", ");
}

const COLUMNS = [
  { key: "name", title: "Table", first: 1, of: (table) => table.id },
  { key: "rows", title: "Rows", first: -1, number: true, of: (table) => table.rows },
  { key: "share", title: "Share", first: -1, number: true, of: (table) => table.share ?? -1, wide: true },
  { key: "first_seen", title: "First seen", first: 1, of: (table) => asNumber(table.first_seen), wide: true },
  { key: "last_seen", title: "Last seen", first: -1, of: (table) => asNumber(table.last_seen) },
  { key: "cluster", title: "Cluster", first: 1, number: true, of: (table) => table.cluster ?? Infinity, wide: true },
];

export class Tables {
  /** chosen(id) is called when a table is opened; ticked(ids) when the ticks change. */
  constructor({ table, find, note, chosen, ticked }) {
    this.head = table.querySelector("thead tr");
    this.body = table.querySelector("tbody");
    Object.assign(this, { table, find, note, chosen, ticked });
    this.sort = { column: COLUMNS[1], way: -1 };
    this.all = [];
    this.lines = new Map(); // id -> the elements of its line
    this.ticks = new Set();
    this.selected = null;
    this.clock = "index";
    this.drawHead();
    find.addEventListener("input", () => this.show(true));
    this.body.addEventListener("keydown", (event) => this.key(event));
    // The order waits while the reader is pointing at a line or has gone to one by keyboard.
    this.body.addEventListener("pointerleave", () => this.show());
    this.body.addEventListener("focusout", () => setTimeout(() => this.show()));
  }

  drawHead() {
    const corner = document.createElement("th");
    corner.scope = "col";
    const said = document.createElement("span");
    said.className = "hidden";
    said.textContent = "Tick to merge";
    corner.append(said);
    this.head.replaceChildren(corner);
    for (const column of COLUMNS) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.className = `${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = column.title;
      button.addEventListener("click", () => {
        const way = this.sort.column === column ? -this.sort.way : column.first;
        this.sort = { column, way };
        this.showSort();
        this.show(true);
      });
      cell.append(button);
      this.head.append(cell);
      column.cell = cell;
    }
    this.showSort();
  }

  showSort() {
    for (const column of COLUMNS) {
      if (column !== this.sort.column) column.cell.removeAttribute("aria-sort");
      else column.cell.setAttribute("aria-sort", this.sort.way > 0 ? "ascending" : "descending");
    }
  }

  clear(clock) {
    this.clock = clock;
    this.all = [];
    this.ticks.clear();
    this.selected = null;
    this.find.value = "";
    this.show(true);
    this.ticked([]);
  }

  set(tables) {
    this.all = tables;
    const open = new Set(tables.map((table) => table.id));
    const gone = [...this.ticks].filter((id) => !open.has(id));
    for (const id of gone) this.ticks.delete(id);
    if (gone.length) this.ticked([...this.ticks]);
    this.show();
  }

  get(id) {
    return this.all.find((table) => table.id === id);
  }

  select(id) {
    this.selected = id;
    for (const [of, line] of this.lines) line.row.classList.toggle("selected", of === id);
  }

  untick() {
    this.ticks.clear();
    for (const line of this.lines.values()) line.tick.checked = false;
    this.ticked([]);
  }

  /** Move the keyboard to a table's line, if it is shown. */
  focus(id) {
    (this.lines.get(id)?.button ?? this.head.querySelector("button")).focus();
  }

  line(id) {
    const row = document.createElement("tr");
    row.dataset.id = id;
    const tickCell = document.createElement("td");
    const tick = document.createElement("input");
    tick.type = "checkbox";
    tick.checked = this.ticks.has(id);
    tick.addEventListener("change", () => {
      if (tick.checked) this.ticks.add(id);
      else this.ticks.delete(id);
      this.ticked([...this.ticks]);
    });
    tickCell.append(tick);
    const head = document.createElement("th");
    head.scope = "row";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "open";
    const name = document.createElement("span");
    const under = document.createElement("span");
    under.className = "id";
    const words = document.createElement("span");
    const topic = document.createElement("span");
    topic.className = "topic";
    words.append(name, under, topic);
    button.append(markOf(id), words);
    head.append(button);
    row.append(tickCell, head);
    const cells = {};
    for (const column of COLUMNS.slice(1)) {
      const cell = document.createElement("td");
      cell.className = `${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`;
      row.append(cell);
      cells[column.key] = cell;
    }
    row.addEventListener("click", (event) => {
      if (!tickCell.contains(event.target)) this.chosen(id);
    });
    row.classList.toggle("selected", id === this.selected);
    return { row, tick, button, name, under, topic, cells };
  }

  /** Bring the list up to date. at once: in its new order even if the reader is in it. */
  show(atOnce = false) {
    const { column, way } = this.sort;
    const word = this.find.value.trim().toLowerCase();
    const found = word
      ? this.all.filter((table) => `${table.name ?? ""} table ${table.id} ${topicOf(table)}`.toLowerCase().includes(word))
      : this.all.slice();
    const compare = (a, b) => {
      const [x, y] = [column.of(a), column.of(b)];
      return (x < y ? -way : x > y ? way : 0) || a.id - b.id;
    };
    const byName = (a, b) => way * (a.name && b.name ? a.name.localeCompare(b.name) : a.name ? -1 : b.name ? 1 : a.id - b.id);
    found.sort(column.key === "name" ? byName : compare);
    const shown = found.slice(0, MOST);
    const ids = new Set(shown.map((table) => table.id));
    for (const [id, { row }] of this.lines) {
      if (ids.has(id)) continue;
      row.remove();
      this.lines.delete(id);
    }
    const busy = !atOnce && this.body.matches(":hover, :focus-within");
    shown.forEach((table, i) => {
      let line = this.lines.get(table.id);
      if (!line) {
        line = this.line(table.id);
        this.lines.set(table.id, line);
        this.body.append(line.row);
      }
      this.fill(line, table);
      if (!busy && this.body.children[i] !== line.row) this.body.insertBefore(line.row, this.body.children[i]);
    });
    const all = plural(this.all.length, "open table");
    this.note.textContent = !this.all.length
      ? "No table is open yet."
      : shown.length < found.length
        ? `${count(shown.length)} of ${plural(found.length, "table")} are shown: find others by a name or a number.`
        : word ? `${count(found.length)} of ${all}.` : `${all}.`;
  }

  fill(line, table) {
    const said = tableName(table.id, table.name);
    if (line.name.textContent !== said) {
      line.name.textContent = said;
      line.under.textContent = table.name ? ` table ${table.id}` : "";
      line.tick.setAttribute("aria-label", `Tick ${said} to merge it`);
    }
    const topic = topicOf(table);
    if (line.topic.textContent !== topic) line.topic.textContent = topic;
    const { cells } = line;
    cells.rows.textContent = count(table.rows);
    cells.share.textContent = share(table.share);
    showTime(cells.first_seen, table.first_seen, true);
    showTime(cells.last_seen, table.last_seen, true);
    cells.cluster.textContent = count(table.cluster);
  }

  /** The arrow keys go from line to line, Home and End to the first and last. */
  key(event) {
    const row = event.target.closest("tr");
    const lines = [...this.body.children];
    const to = {
      ArrowDown: row.nextElementSibling,
      ArrowUp: row.previousElementSibling,
      Home: lines[0],
      End: lines.at(-1),
    }[event.key];
    if (!to) return;
    event.preventDefault();
    to.querySelector(event.target.type === "checkbox" ? "input" : "button").focus();
  }
}
