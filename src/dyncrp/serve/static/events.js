// The list of events, the newest first, and what is said of them aloud.

import { markOf } from "./marks.js";
import { SYMBOLS, count, eventParts, eventText, plural, showTime, tableName } from "./words.js";

const MOST = 300; // kept
const QUIET = 5000; // ms between two things said aloud

export class Events {
  /** chosen(id) is called when the table of an event is chosen; names(id) gives the name that a table has now, or null. */
  constructor({ list, note, kinds, chosen, names }) {
    Object.assign(this, { list, note, kinds, chosen, names });
    this.all = [];
    this.clock = "index";
    kinds.addEventListener("change", () => this.show());
  }

  clear(clock) {
    this.clock = clock;
    this.all = [];
    this.show();
  }

  /** Replace all events, the newest last. */
  replace(events) {
    this.all = events.slice(-MOST);
    this.show();
  }

  /** Add an event, and return whether it is a new one. */
  add(event) {
    if (this.all.length && event.id <= this.all.at(-1).id) return false;
    this.all.push(event);
    if (this.all.length > MOST) this.all.shift();
    if (this.wanted(event)) {
      const top = this.list.scrollTop;
      const before = this.folds(event) ? this.list.querySelector(`li[data-kind="returned"][data-table="${event.table}"]`) : null;
      const height = before?.offsetHeight ?? 0;
      before?.remove();
      this.list.prepend(this.line(event));
      // Who has scrolled down keeps what was being read in sight.
      if (top > 0) this.list.scrollTop = top + this.list.firstElementChild.offsetHeight - height;
      while (this.list.children.length > MOST) this.list.lastElementChild.remove();
    }
    this.count();
    return true;
  }

  /** Return whether an event stands for all of its kind and table: tables that come and go would fill the list. */
  folds(event) {
    return event.kind === "returned" && this.kinds.value !== "returned";
  }

  /** Return the events to show, the newest first; of those that fold, the newest. */
  shown() {
    const seen = new Set();
    return this.all.filter((event) => this.wanted(event)).reverse().filter((event) => {
      if (!this.folds(event)) return true;
      const first = !seen.has(event.table);
      seen.add(event.table);
      return first;
    });
  }

  wanted(event) {
    return !this.kinds.value || this.kinds.value.split(" ").includes(event.kind);
  }

  show() {
    this.list.replaceChildren(...this.shown().map((event) => this.line(event)));
    this.count();
  }

  count() {
    const shown = this.list.children.length;
    this.note.textContent = !this.all.length
      ? "Nothing has happened yet."
      : !shown ? "No event of this kind among the latest." : this.all.length >= MOST ? `The latest ${plural(shown, "event")}.` : "";
  }

  line(event) {
    const item = document.createElement("li");
    item.dataset.kind = event.kind;
    item.dataset.id = event.id;
    item.dataset.table = event.table;
    const times = this.folds(event) ? this.all.filter(({ kind, table }) => kind === "returned" && table === event.table).length : 1;
    const symbol = document.createElement("span");
    symbol.className = "symbol";
    symbol.textContent = SYMBOLS[event.kind] ?? "·";
    symbol.setAttribute("aria-hidden", "true");
    const words = document.createElement("span");
    words.className = "words";
    for (const part of eventParts(event, this.clock, times)) {
      if (typeof part === "string") {
        words.append(part);
        continue;
      }
      if (part.verb) {
        const verb = document.createElement("b");
        verb.textContent = part.verb;
        words.append(verb);
        continue;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "open";
      button.append(markOf(part.table), tableName(part.table, event.kind === "renamed" ? part.name : (this.names(part.table) ?? part.name)));
      button.addEventListener("click", () => this.chosen(part.table));
      words.append(button);
    }
    const when = document.createElement("span");
    when.className = "when";
    if (this.clock === "index") {
      when.textContent = `row ${count(event.row)}`;
    } else {
      showTime(when, event.time, true);
      when.title = `${when.title ? `${when.title}, ` : ""}row ${count(event.row)}`;
    }
    item.append(symbol, words, when);
    return item;
  }
}

/** Says alarms and new tables aloud, politely: at most one sentence every few seconds, which sums up what came. */
export class Announcer {
  constructor(region) {
    this.region = region;
    this.waiting = [];
    this.clock = "index";
  }

  tell(event) {
    if (!["alarm", "opened"].includes(event.kind)) return;
    this.waiting.push(event);
    this.timer ??= setTimeout(() => this.speak(), Math.max(0, (this.spoken ?? 0) + QUIET - Date.now()));
  }

  speak() {
    this.timer = null;
    this.spoken = Date.now();
    const alarms = this.waiting.filter((event) => event.kind === "alarm");
    const opened = this.waiting.filter((event) => event.kind === "opened");
    this.waiting = [];
    const said = [];
    if (alarms.length === 1) said.push(`${eventText(alarms[0], this.clock)}.`);
    if (alarms.length > 1) said.push(`${plural(alarms.length, "alarm")}, the latest at row ${count(alarms.at(-1).row)}.`);
    if (opened.length === 1) said.push(`${eventText(opened[0], this.clock)}.`);
    if (opened.length > 1) said.push(`${plural(opened.length, "new table")}.`);
    this.region.textContent = said.join(" ");
  }

  clear() {
    this.waiting = [];
  }
}
