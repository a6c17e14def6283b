// What is known of one table, beside the list or, on a narrow page, before everything else; and the form to rename it.

import { ofStream, request } from "./api.js";
import { markOf } from "./marks.js";
import { count, number, share, showTime, tableName } from "./words.js";

const MOST_FEATURES = 24; // shown before asking
const MOST_CELLS = 8; // features of an example

const narrow = matchMedia("(max-width: 760px)");

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Fill a part of the panel if what it shows has changed, unless the reader is at work in it. */
function fill(part, shown, make) {
  const text = JSON.stringify(shown);
  const selection = getSelection();
  const busy = part.matches(":focus-within") || (!selection.isCollapsed && part.contains(selection.anchorNode));
  if (part.dataset.shown === text || (part.dataset.shown && busy)) return;
  part.dataset.shown = text;
  const opened = part.querySelector("details")?.open ?? false;
  part.replaceChildren(...make());
  const details = part.querySelector("details");
  if (details) details.open = opened;
}

export class Panel {
  /** renamed() is called after a rename, moved(id) if the table is another now, closed(id) when the panel was closed. */
  constructor({ dialog, body, form, said, renamed, moved, closed }) {
    Object.assign(this, { dialog, body, form, said, renamed, moved, closed });
    this.title = dialog.querySelector("h2");
    this.input = form.querySelector("input");
    this.id = null;
    dialog.querySelector("#panel-close").addEventListener("click", () => this.close());
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        this.close();
      }
    });
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.rename();
    });
  }

  /** Open the panel on a table of a stream. */
  async open(stream, clock, table) {
    const another = this.id !== table.id || this.stream !== stream;
    Object.assign(this, { stream, clock, id: table.id });
    if (another) {
      this.input.value = table.name ?? "";
      this.say("");
      this.body.replaceChildren(element("p", "Fetching …", "caption"));
    }
    this.head(table);
    if (!this.dialog.open) {
      if (narrow.matches) this.dialog.showModal();
      else this.dialog.show();
    }
    this.title.focus();
    await this.refresh();
  }

  close() {
    if (this.id === null) return;
    const { id } = this;
    this.id = null;
    this.dialog.close();
    this.closed(id);
  }

  head(table) {
    this.title.replaceChildren(markOf(table.id), element("span", tableName(table.id, table.name)));
    if (table.name) this.title.append(element("span", ` table ${table.id}`, "id"));
    this.name = table.name ?? "";
  }

  say(text, wrong = false) {
    this.said.textContent = text;
    this.said.className = wrong ? "error" : "caption";
  }

  /** Fetch the table anew and show it. */
  async refresh() {
    const { id, stream } = this;
    if (id === null) return;
    let table;
    try {
      table = await request(ofStream(stream, "tables", id));
    } catch (error) {
      if (this.id !== id) return;
      if (error.status === 404) this.body.replaceChildren(element("p", "This table has been closed, or merged into another.", "note"));
      else if (error.status) this.body.replaceChildren(element("p", error.message, "error"));
      return;
    }
    if (this.id !== id || this.stream !== stream) return;
    if (table.id !== id) {
      this.id = table.id; // it was merged into another
      this.moved(table.id);
    }
    const typed = this.input.value !== this.name;
    this.head(table);
    if (!typed) this.input.value = this.name;
    const { describes, examples, ...facts } = table;
    if (this.body.children.length !== 3) this.body.replaceChildren(element("div"), element("div"), element("div"));
    const [first, second, third] = this.body.children;
    fill(first, facts, () => [this.facts(table)]);
    fill(second, describes ?? {}, () => this.describes(table));
    fill(third, examples ?? null, () => this.examples(table));
  }

  facts(table) {
    const list = element("dl");
    const fact = (title, value) => list.append(element("dt", title), element("dd", value));
    fact("Rows", `${count(table.rows)} (${share(table.share)})`);
    for (const [title, time] of [["First seen", table.first_seen], ["Last seen", table.last_seen]]) {
      const value = element("dd");
      showTime(value, time);
      list.append(element("dt", title), value);
    }
    fact("Occupancy now", number(table.occupancy));
    fact("Cluster", count(table.cluster));
    return list;
  }

  describes(table) {
    const features = Object.entries(table.describes ?? {});
    if (!features.length) return [];
    const rows = (some) => {
      const list = element("table", undefined, "plain");
      const body = element("tbody");
      for (const [feature, value] of some) {
        const row = element("tr");
        const head = element("th", feature);
        head.scope = "row";
        row.append(head, element("td", number(value)));
        body.append(row);
      }
      list.append(body);
      return list;
    };
    const made = [element("h3", "Description"), rows(features.slice(0, MOST_FEATURES))];
    if (features.length > MOST_FEATURES) {
      const more = element("details");
      more.append(element("summary", `${count(features.length - MOST_FEATURES)} more`), rows(features.slice(MOST_FEATURES)));
      made.push(more);
    }
    return made;
  }

  examples(table) {
    const made = [element("h3", "Examples")];
    const kinds = [["typical", "The most typical"], ["latest", "The latest"]];
    if (!table.examples) {
      made.push(element("p", "This stream keeps no examples: n_examples was 0 when it was made.", "caption"));
      return made;
    }
    for (const [kind, title] of kinds) {
      const rows = table.examples[kind] ?? [];
      if (!rows.length) continue;
      const features = Object.keys(rows[0].values ?? {});
      const some = features.slice(0, MOST_CELLS);
      const list = element("table", undefined, "plain");
      const caption = element("caption", features.length > some.length ? `${title} (${some.length} of ${count(features.length)} features)` : title);
      const head = element("tr");
      for (const name of this.clock === "index" ? ["row", ...some] : ["row", "time", ...some]) {
        const cell = element("th", name, name === "time" || typeof rows[0].values?.[name] === "string" ? "" : "number");
        cell.scope = "col";
        head.append(cell);
      }
      const top = element("thead");
      top.append(head);
      const body = element("tbody");
      for (const example of rows) {
        const row = element("tr");
        row.append(element("td", count(example.row), "number"));
        if (this.clock !== "index") {
          const time = element("td", undefined, "time");
          showTime(time, example.time, true);
          row.append(time);
        }
        for (const feature of some) {
          const value = example.values[feature];
          row.append(element("td", number(value), typeof value === "string" ? "" : "number"));
        }
        body.append(row);
      }
      list.append(caption, top, body);
      const frame = element("div", undefined, "scroll");
      frame.tabIndex = 0;
      frame.setAttribute("role", "region");
      frame.setAttribute("aria-label", title);
      frame.append(list);
      made.push(frame);
    }
    if (made.length === 1) made.push(element("p", "None yet.", "caption"));
    return made;
  }

  async rename() {
    const { id, stream } = this;
    const name = this.input.value.trim();
    this.say("Renaming …");
    try {
      await request(ofStream(stream, "rename"), { method: "POST", body: { table: id, name } });
    } catch (error) {
      this.say(error.message, true);
      this.input.focus();
      return;
    }
    if (this.id !== id) return;
    this.say(name ? `Table ${id} is now called “${name}”.` : `Table ${id} has no name now.`);
    this.name = this.input.value = name;
    this.renamed();
  }
}
