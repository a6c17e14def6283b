// The alarms: each with its row, why it was unusual, and whether somebody has seen it.

import { ofStream, request } from "./api.js";
import { markOf } from "./marks.js";
import { count, number, plural, showTime } from "./words.js";

const MOST = 200; // listed
const MOST_CELLS = 6; // of a row
const MOST_WHY = 5; // columns
const FEW = 10; // rows of a table, with which it says little of what is usual

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Return how rare a row is, as far as rows that have come can tell. */
function rarity(p) {
  return p < 1e-4 ? "less than one row in 10,000" : `about one row in ${count(Math.max(1, Math.round(1 / p)))}`;
}

export class Alarms {
  /**
   * chosen(id) is called when a table is chosen, counted(n) with how many are new; about(id) gives a table, and
   * called(id, name) what the cluster of a table is called, which had a name when the alarm came.
   */
  constructor({ list, note, kinds, all, chosen, counted, about, called }) {
    Object.assign(this, { list, note, kinds, chosen, counted, about, called });
    this.button = all;
    this.clear("index");
    kinds.addEventListener("change", () => this.show());
    all.addEventListener("click", () => this.acknowledge(this.alarms.filter((alarm) => !alarm.acknowledged).map(({ id }) => id)));
  }

  clear(clock) {
    this.clock = clock;
    this.alarms = [];
    this.open = new Map(); // id -> what was answered to "Why?"
    this.n = 0;
    this.list.replaceChildren();
  }

  /** Fetch the alarms anew. named: whether rows have names of columns. */
  async refresh(stream, { named, rate }) {
    Object.assign(this, { stream, named, rate });
    const { alarms, unacknowledged } = await request(`${ofStream(stream, "alarms")}?limit=${MOST}`);
    if (this.stream !== stream) return;
    this.alarms = alarms.reverse();
    this.n = unacknowledged;
    this.show();
  }

  show() {
    this.counted(this.n);
    const shown = this.alarms.filter((alarm) => this.kinds.value === "all" || !alarm.acknowledged);
    const ids = shown.map(({ id, acknowledged, table, name }) => [id, acknowledged, this.called(table, name), this.open.has(id)]);
    const text = JSON.stringify(ids);
    if (this.list.dataset.shown !== text) {
      this.list.dataset.shown = text;
      const held = document.activeElement?.closest?.("#alarms li");
      const [id, which] = held ? [held.dataset.id, [...held.querySelectorAll("button")].indexOf(document.activeElement)] : [];
      this.list.replaceChildren(...shown.map((alarm) => this.item(alarm)));
      if (id) (this.list.querySelector(`li[data-id="${id}"]`)?.querySelectorAll("button")[which] ?? this.kinds).focus();
    }
    this.button.disabled = !this.alarms.some((alarm) => !alarm.acknowledged);
    this.note.textContent = shown.length ? (this.n > shown.length ? `${count(this.n)} are new; the latest are shown.` : "")
      : !this.rate ? "This stream has no alarm_rate, so there are no alarms."
      : this.alarms.length ? "No new alarm: all have been acknowledged." : "No alarm yet.";
  }

  item(alarm) {
    const { id, row, table, what } = alarm;
    const item = element("li", alarm.acknowledged ? "seen" : "");
    item.dataset.id = id;
    const head = element("div", "head");
    const title = element("b", "", `▲ Row ${count(row)}`);
    const of = element("button", "open");
    of.type = "button";
    of.append(markOf(table), this.called(table, alarm.name));
    of.addEventListener("click", () => this.chosen(table));
    const when = element("span", "when");
    if (this.clock !== "index") showTime(when, alarm.time, true);
    head.append(title, " joined ", of, when);
    item.append(head);
    const cells = Object.entries(what.values ?? {});
    if (cells.length) {
      const rest = cells.length > MOST_CELLS ? ` and ${count(cells.length - MOST_CELLS)} more` : "";
      item.append(element("p", "cells", cells.slice(0, MOST_CELLS).map(([column, value]) => `${column} ${number(value)}`).join(", ") + rest));
    }
    item.append(element("p", "caption", `novelty ${number(what.novelty)}; ${rarity(what.p)} is as unusual`));
    const actions = element("div", "acts");
    const act = (text, label, done) => {
      const button = element("button", "small", text);
      button.type = "button";
      button.setAttribute("aria-label", label);
      button.addEventListener("click", done);
      actions.append(button);
    };
    if (cells.length) act(this.open.has(id) ? "Hide why" : "Why?", `Why is row ${count(row)} unusual?`, () => this.why(alarm));
    if (!alarm.acknowledged) act("Acknowledge", `Acknowledge the alarm of row ${count(row)}`, () => this.acknowledge([id]));
    else actions.append(element("span", "caption", "acknowledged"));
    item.append(actions);
    if (this.open.has(id)) item.append(this.open.get(id));
    return item;
  }

  async acknowledge(ids) {
    if (!ids.length) return;
    try {
      await request(ofStream(this.stream, "acknowledge"), { method: "POST", body: { alarms: ids } });
      for (const alarm of this.alarms) if (ids.includes(alarm.id)) alarm.acknowledged = true;
      this.n = Math.max(0, this.n - ids.length);
      this.show();
    } catch (error) {
      this.note.textContent = error.message;
    }
  }

  async why(alarm) {
    if (this.open.has(alarm.id)) {
      this.open.delete(alarm.id);
    } else {
      const { values } = alarm.what;
      try {
        const told = await request(ofStream(this.stream, "explain"), { method: "POST", body: { row: this.named ? values : Object.values(values) } });
        this.open.set(alarm.id, this.explanation(alarm, told));
      } catch (error) {
        this.open.set(alarm.id, element("p", "error", error.message));
      }
    }
    this.show();
  }

  /** Compare a row with the table that it joined or, if that one has few rows beside it, with the best other one. */
  explanation(alarm, told) {
    const box = element("div", "why");
    box.tabIndex = 0; // it may scroll
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Why row ${count(alarm.row)} is unusual`);
    const own = this.about(alarm.table);
    const rest = own && own.first_seen !== alarm.time; // it had rows before
    const [best, other] = [told.table, told.runner_up].map((id) => this.about(id));
    const few = !best || best.rows < FEW;
    const against = few && other ? other : best;
    const odds = few && other ? told.against_runner_up : told.against_new;
    // A column tells most where the row fits the one table and not the other.
    const terms = Object.entries(odds?.features ?? {}).sort(([, a], [, b]) => (few && other ? b - a : a - b)).slice(0, MOST_WHY);
    if (!against || !terms.length) {
      box.append(element("p", "caption", "There is nothing to compare it with."));
      return box;
    }
    const name = this.called(against.id, against.name);
    const list = element("table", "plain");
    list.append(element("caption", "", !few || !other
      ? `It is most like ${name}; the columns that fit it least come first.`
      : `${rest ? `It joined ${this.called(own.id, own.name)}, which has few rows.` : "It fitted no cluster."} `
        + `The next is ${name}; the columns that tell most come first.`));
    const head = element("tr");
    for (const text of ["Column", "This row", `Usual in ${name}`]) {
      const cell = element("th", "", text);
      cell.scope = "col";
      head.append(cell);
    }
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const [column] of terms) {
      const line = element("tr");
      const th = element("th", "", column);
      th.scope = "row";
      line.append(th, element("td", "", number(alarm.what.values[column] ?? told.values[column])), element("td", "", number(against.describes?.[column])));
      body.append(line);
    }
    list.append(top, body);
    box.append(list);
    return box;
  }
}
