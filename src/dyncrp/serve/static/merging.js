// Merging two tables: how far apart they are, joining them in a cluster instead, and undoing a merge.

import { ofStream, request } from "./api.js";
import { number, plural, tableNameAndId } from "./words.js";

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export class Merging {
  /** parts: dialog, text, body, said, cancel, join, merge, undoNote, undoText, undo. done(id) is called after a change. */
  constructor(parts, { done }) {
    Object.assign(this, parts, { done });
    this.cancel.addEventListener("click", () => this.dialog.close());
    this.merge.addEventListener("click", () => this.send("merge"));
    this.join.addEventListener("click", () => this.send("join"));
    this.undo.addEventListener("click", () => this.send("undo"));
  }

  /** Ask whether to merge two tables. */
  async open(stream, a, b) {
    Object.assign(this, { stream, pair: [a.id, b.id] });
    const of = (table) => `${tableNameAndId(table.id, table.name)}, ${plural(table.rows, "row")}`;
    this.text.textContent = `Merge ${of(a)}, and ${of(b)}? Table ${a.id}, the older one, stays, and table ${b.id} answers with it from now on.`;
    this.body.replaceChildren(element("p", "caption", "Comparing them …"));
    this.said.textContent = "";
    this.dialog.showModal();
    this.cancel.focus();
    try {
      const told = await request(ofStream(stream, "compare"), { method: "POST", body: { tables: this.pair } });
      this.body.replaceChildren(...this.comparison(told, [a, b]));
    } catch (error) {
      this.body.replaceChildren(element("p", "caption", `They could not be compared: ${error.message}`));
    }
  }

  comparison({ far_apart: far, columns }, tables) {
    const verdict = far
      ? "They are far apart: one table cannot cover both, so rows like theirs will open others. Join them in a cluster instead."
      : "They are near each other: one table covers both.";
    const list = element("table", "plain");
    const head = element("tr");
    for (const text of ["Column", ...tables.map(({ id, name }) => name || `table ${id}`), "Apart"]) {
      const cell = element("th", "", text);
      cell.scope = "col";
      head.append(cell);
    }
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const { column, values, apart } of columns) {
      const line = element("tr");
      const th = element("th", "", column);
      th.scope = "row";
      line.append(th, ...values.map((value) => element("td", "", value ?? "–")), element("td", "", apart === null ? "–" : `${number(Number(apart.toPrecision(2)))} sd`));
      body.append(line);
    }
    list.append(top, body);
    const note = element("p", "caption", "sd: standard deviations of all rows, which spread more than those of one table. Joined tables are one cluster and stay as they are; that can be taken apart at any time. A merge can be undone for a while.");
    return [element("p", far ? "warning" : "", verdict), list, note];
  }

  /** Offer to undo the last merge: {table, merged}, or null. */
  offer(stream, undo, names) {
    this.stream = stream;
    this.undoNote.hidden = !undo;
    if (undo) this.undoText.textContent = `Table ${undo.merged} was merged into ${names(undo.table)}. Undoing it learns again what came since.`;
  }

  async send(what) {
    const buttons = [this.merge, this.join, this.undo];
    for (const button of buttons) button.disabled = true;
    try {
      await request(ofStream(this.stream, what), { method: "POST", body: what === "undo" ? {} : { tables: this.pair } });
      this.dialog.close();
      await this.done(what === "undo" ? null : this.pair[0]);
    } catch (error) {
      if (this.dialog.open) this.said.textContent = error.message;
      else this.undoText.textContent = error.message;
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  }
}
