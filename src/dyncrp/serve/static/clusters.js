// The clusters: what is typical of each, how many rows it had over the time that is drawn, and the tables in it.

import { markOf } from "./marks.js";
import { count, plural, share, showTime } from "./words.js";

const MOST = 60; // clusters listed
const MOST_TRAITS = 4;
const MOST_TABLES = 40;
const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [120, 24];

/** Return what a cluster is called: by the names of its tables, if they have any. */
export function clusterName({ cluster, names }) {
  return names?.length ? names.slice(0, 3).join(", ") + (names.length > 3 ? " …" : "") : `cluster ${cluster}`;
}

/** Return "co2 910 ↑, power 4,200 ↑". */
export function traitsText(typical) {
  const trait = ([column, text, deviation]) => `${column ? `${column} ` : ""}${text}${deviation >= 0.5 ? " ↑" : deviation <= -0.5 ? " ↓" : ""}`;
  return (typical ?? []).slice(0, MOST_TRAITS).map(trait).join(", ");
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawSpark(svg, values, most) {
  const step = WIDE / values.length;
  const y = (value) => HIGH - 1 - (value / most) * (HIGH - 3);
  const steps = values.map((value, i) => `L${(i * step).toFixed(1)} ${y(value).toFixed(1)}L${((i + 1) * step).toFixed(1)} ${y(value).toFixed(1)}`);
  svg.firstChild.setAttribute("d", `M0 ${HIGH}${steps.join("")}L${WIDE} ${HIGH}Z`);
  const busy = values.filter((value) => value > 0).length;
  svg.setAttribute("aria-label", `${plural(values.reduce((a, b) => a + b, 0), "row")} in what is drawn, in ${Math.round((100 * busy) / values.length)} % of that time`);
}

export class Clusters {
  /** chosen(table) is called when a table is chosen, parted(pair) to take apart what was joined by hand; spark(tables) gives counts. */
  constructor({ list, note, chosen, parted, spark }) {
    Object.assign(this, { list, note, chosen, parted, spark });
    this.all = [];
  }

  clear() {
    this.all = [];
    this.list.replaceChildren();
    delete this.list.dataset.shown;
  }

  /** names(id) gives what a table is called. */
  set(clusters, names) {
    this.all = clusters;
    const shown = clusters.slice(0, MOST);
    // Buttons are made anew only when they must be, or they would vanish under the pointer every second.
    const text = JSON.stringify(shown.map((one) => [one.cluster, clusterName(one), one.tables.map(names), one.by_hand]));
    if (this.list.dataset.shown !== text) {
      const held = document.activeElement?.closest?.("#clusters li")?.dataset.id;
      this.list.dataset.shown = text;
      this.list.replaceChildren(...shown.map((one) => this.item(one, names)));
      if (held) this.list.querySelector(`li[data-id="${held}"] button`)?.focus();
    }
    shown.forEach((one, i) => this.fill(this.list.children[i], one));
    this.note.textContent = !clusters.length ? "No cluster yet."
      : clusters.length > MOST ? `The largest ${MOST} of ${plural(clusters.length, "cluster")}.` : "";
    this.sparks();
  }

  item(one, names) {
    const item = element("li");
    item.dataset.id = one.cluster;
    const head = element("div", "head");
    const button = element("button", "open");
    button.type = "button";
    button.append(markOf(one.cluster), clusterName(one));
    button.addEventListener("click", () => this.chosen(one.cluster));
    head.append(button, element("span", "rows"));
    const spark = document.createElementNS(SVG, "svg");
    spark.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
    spark.setAttribute("preserveAspectRatio", "none");
    spark.setAttribute("class", "spark");
    spark.setAttribute("role", "img");
    const path = document.createElementNS(SVG, "path");
    path.dataset.table = one.cluster;
    spark.append(path);
    item.append(head, spark, element("p", "typical"));
    if (one.tables.length > 1) {
      const tables = element("p", "caption", `${count(one.tables.length)} tables: `);
      one.tables.slice(0, MOST_TABLES).forEach((id) => {
        const of = element("button", "open");
        of.type = "button";
        of.append(markOf(id), names(id));
        of.addEventListener("click", () => this.chosen(id));
        tables.append(of, " ");
      });
      if (one.tables.length > MOST_TABLES) tables.append(`and ${count(one.tables.length - MOST_TABLES)} more`);
      item.append(tables);
    }
    for (const pair of one.by_hand ?? []) {
      const note = element("p", "caption", `${pair.map(names).join(" and ")} were joined by hand. `);
      const part = element("button", "small", "Take apart");
      part.type = "button";
      part.addEventListener("click", () => this.parted(pair));
      note.append(part);
      item.append(note);
    }
    return item;
  }

  fill(item, one) {
    const put = (selector, text) => {
      const at = item.querySelector(selector);
      if (at.textContent !== text) at.textContent = text;
    };
    put(".rows", `${plural(one.rows, "row")}${one.share === undefined ? "" : `, ${share(one.share)}`}`);
    put(".typical", traitsText(one.typical));
    if (one.last_seen !== undefined) {
      const when = element("span");
      showTime(when, one.last_seen, true);
      item.querySelector(".rows").title = `last seen ${when.textContent}`;
    }
  }

  /** Draw the lines of rows over time, all to one scale. */
  sparks() {
    const values = this.all.slice(0, MOST).map(({ tables }) => this.spark(tables));
    const most = Math.max(1, ...values.flat());
    values.forEach((own, i) => drawSpark(this.list.children[i].querySelector(".spark"), own, most));
  }
}
