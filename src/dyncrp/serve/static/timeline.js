// The moving drawing: which table each of the latest rows joined, and below it how novel the row was, alarms marked.

import { colour, drawMark, page } from "./marks.js";
import { asNumber, count, number, plural, tableName, timeText } from "./words.js";

const LINE = 20; // px a table
const NOVELTY = 84; // px
const AXIS = 34; // px
const TOP = 18; // px, for the words above
const GLIDE = 350; // ms in which new rows push the old ones aside
const FAR = 30; // times the usual height, from where heights are drawn as logarithms
const DATE_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400]
  .concat([2, 7, 14, 30, 91, 182, 365, 730, 1826, 3652].map((days) => 86_400 * days));
const still = matchMedia("(prefers-reduced-motion: reduce)");
const clockFace = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const secondsFace = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFace = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const yearFace = new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric" });

/** Return some n round numbers from lo to hi. */
function ticks(lo, hi, n) {
  const raw = (hi - lo) / Math.max(n, 1);
  if (!(raw > 0)) return [lo];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * (1 - 1e-9));
  const found = [];
  for (let at = Math.ceil(lo / step); at * step <= hi + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** Return some n round times of the local clock, with their words. lo, hi: ms since 1970. */
function dateTicks(lo, hi, n) {
  const raw = (hi - lo) / 1000 / Math.max(n, 1);
  const step = 1000 * (DATE_STEPS.find((seconds) => seconds >= raw) ?? DATE_STEPS.at(-1));
  const offset = new Date(lo).getTimezoneOffset() * 60_000;
  const found = [];
  for (let at = Math.ceil((lo - offset) / step) * step + offset; at <= hi; at += step) {
    const day = step >= 86_400_000;
    const face = step >= 91 * 86_400_000 ? yearFace : day || (at - offset) % 86_400_000 === 0 ? dayFace : step < 60_000 ? secondsFace : clockFace;
    found.push([at, face.format(at)]);
  }
  return found;
}

export class Timeline {
  /** names(id) gives a table's name or null; clusters(id) its cluster or null; chosen(id) is called when a line is clicked. */
  constructor(root, { names, clusters, chosen }) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.tip = root.querySelector(".tip");
    Object.assign(this, { names, clusters });
    this.size = 2000;
    this.axis = "time";
    this.selected = null;
    this.paused = false;
    this.clear("index");
    new ResizeObserver(() => this.redraw()).observe(root);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (event) => {
      const line = this.lineAt(event);
      if (line !== undefined && line >= 0) chosen(line);
    });
  }

  clear(clock) {
    this.clock = clock;
    this.rows = [];
    this.alarms = new Map(); // row -> its event: an alarm is drawn even if the server has left its row out
    this.view = null;
    this.shown = null;
    this.redraw();
  }

  /**
   * Take rows in: columns as the server sends them, of which those that are there already are left out.
   *
   * Return whether none between is missing: the server leaves some out if they come fast.
   */
  add({ rows, times, tables, novelty, novelty_p: p }) {
    const last = this.rows.at(-1)?.row ?? -1;
    for (let i = 0; i < rows.length; i += 1) {
      if (rows[i] <= last) continue;
      this.rows.push({ row: rows[i], time: times[i], x: asNumber(times[i]), table: tables[i], novelty: novelty[i], p: p?.[i] });
    }
    if (this.rows.length > 1.5 * this.size) {
      this.rows = this.rows.slice(-this.size);
      for (const row of this.alarms.keys()) if (row < this.rows[0].row) this.alarms.delete(row);
    }
    this.redraw();
    return last < 0 || this.rows.at(-1).row - last <= rows.length;
  }

  /** Replace all rows. */
  replace(columns) {
    this.rows = [];
    this.add(columns);
  }

  latest() {
    const before = (this.rows.at(-1)?.row ?? 0) - this.size;
    return this.rows.filter((row) => row.row > before);
  }

  alarm({ row, time, table, what }) {
    this.alarms.set(row, { row, time, x: asNumber(time), table, novelty: what.novelty, p: what.p });
    this.redraw();
  }

  /** Return the alarms among the rows that are shown. */
  alarmsOf(rows) {
    return rows.length ? [...this.alarms.values()].filter(({ row }) => row >= rows[0].row && row <= rows.at(-1).row) : [];
  }

  merged(old, into) {
    for (const row of this.rows) if (row.table === old) row.table = into;
    this.redraw();
  }

  pause(paused) {
    this.paused = paused;
    if (paused) this.frozen = this.latest();
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame((now) => {
      this.frame = null;
      this.draw(now);
    });
  }

  x(row) {
    return this.axis === "row" || this.clock === "index" || Number.isNaN(row.x) ? row.row : row.x;
  }

  /** Return the tables to draw, in the order of opening; of too many, the largest, and -1 for the others. */
  lines(rows) {
    const sizes = new Map();
    for (const { table } of rows) sizes.set(table, (sizes.get(table) ?? 0) + 1);
    let ids = [...sizes.keys()];
    const most = this.root.clientWidth < 600 ? 14 : 24;
    if (ids.length > most) {
      ids = ids.sort((a, b) => sizes.get(b) - sizes.get(a)).slice(0, most - 1);
      this.others = sizes.size - ids.length;
    } else {
      this.others = 0;
    }
    ids.sort((a, b) => a - b);
    if (this.others) ids.push(-1);
    return ids;
  }

  draw(now) {
    const rows = this.paused ? this.frozen : this.latest();
    const { ink, soft, grid, band, paper } = page();
    const ids = this.lines(rows);
    const width = this.root.clientWidth;
    const narrow = width < 600;
    const left = narrow ? 84 : 132;
    const joined = ids.some((id) => id >= 0 && this.clusters(id) !== null);
    const right = joined ? (narrow ? 28 : 46) : 10;
    const top = TOP;
    const bottom = top + LINE * Math.max(ids.length, 3);
    const height = bottom + 14 + NOVELTY + AXIS;
    const scale = devicePixelRatio || 1;
    const { canvas } = this;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = paper;
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.describe(rows, ids);
    if (!rows.length) {
      context.fillStyle = soft;
      context.fillText("No row has a final table yet.", 12, top + 30);
      this.view = null;
      return;
    }

    // The ends of the drawing glide to those of the rows, unless the reader prefers stillness or the jump is far.
    const aim = [this.x(rows[0]), this.x(rows.at(-1))];
    if (aim[0] === aim[1]) aim[1] += 1;
    const span = aim[1] - aim[0];
    const kind = `${this.axis} ${this.size}`;
    if (!this.view || still.matches || this.view.kind !== kind || aim[1] - this.view.to[1] > span || aim[1] < this.view.to[1]) {
      this.view = { from: aim, to: aim, at: aim, begun: now, kind };
    } else if (aim[0] !== this.view.to[0] || aim[1] !== this.view.to[1]) {
      this.view = { from: this.view.at, to: aim, at: this.view.at, begun: now, kind };
    }
    const part = Math.min((now - this.view.begun) / GLIDE, 1);
    const eased = 1 - (1 - part) ** 3;
    this.view.at = this.view.to.map((end, i) => this.view.from[i] + (end - this.view.from[i]) * eased);
    if (part < 1) this.redraw();
    const [lo, hi] = this.view.at;
    const plot = width - left - right;
    const place = (x) => left + ((x - lo) / (hi - lo)) * (plot - 4) + 2;

    const y = new Map(ids.map((id, i) => [id, top + LINE * i + LINE / 2]));
    for (const [id, middle] of y) {
      if (id === this.selected) {
        context.fillStyle = band;
        context.fillRect(0, middle - LINE / 2, width, LINE);
      }
      context.fillStyle = grid;
      context.fillRect(left, Math.round(middle), plot, 1);
      if (id >= 0) drawMark(context, id, 9, middle, 5);
      context.fillStyle = ink;
      context.textAlign = "left";
      const label = id < 0 ? `${this.others} others` : this.names(id) || `table ${id}`;
      context.fillText(shorten(context, label, left - 26), 20, middle + 1);
      const cluster = id < 0 ? null : this.clusters(id);
      if (cluster !== null) {
        context.fillStyle = soft;
        context.textAlign = "center";
        context.fillText(String(cluster), width - right / 2, middle + 1);
      }
    }
    if (joined) {
      context.fillStyle = soft;
      context.textAlign = "right";
      context.fillText("cluster", width - 2, top / 2);
    }

    const thick = Math.min(Math.max(plot / rows.length, 1), 6);
    const snap = (x) => Math.round(x * scale) / scale; // whole pixels, or neighbours would shine through each other
    context.save();
    context.beginPath();
    context.rect(left, 0, plot, bottom); // what glides in and out is cut at the ends
    context.clip();
    for (const row of rows) {
      const middle = y.get(row.table) ?? y.get(-1);
      context.fillStyle = y.has(row.table) ? colour(row.table) : soft;
      const x = place(this.x(row));
      const begin = snap(x - thick / 2);
      context.fillRect(begin, middle - 7, Math.max(snap(x + thick / 2) - begin, 1), 15);
    }
    context.restore();

    this.drawNovelty(context, rows, { left, plot, place, above: bottom + 14, below: bottom + 14 + NOVELTY });
    this.drawAxis(context, { lo, hi, left, plot, place, top, below: bottom + 14 + NOVELTY });
    this.shown = { rows, ids, place, top, bottom, left, height };
  }

  drawNovelty(context, rows, { left, plot, place, above, below }) {
    const { soft, ink, grid, alarm, paper } = page();
    const alarms = this.alarmsOf(rows);
    const values = rows.concat(alarms).map((row) => row.novelty).filter((value) => value !== null && value !== undefined);
    context.textAlign = "left";
    context.fillStyle = ink;
    context.fillText("novelty", 6, above + 8);
    if (!values.length) return;
    let lowest = Infinity;
    let highest = -Infinity;
    for (const value of values) {
      lowest = Math.min(lowest, value);
      highest = Math.max(highest, value);
    }
    if (lowest > 0 && lowest < highest / 3) lowest = 0;
    const usual = values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] - lowest;
    const far = highest - lowest > FAR * Math.max(usual, 1e-9);
    const squeeze = far ? (value) => Math.log1p((value - lowest) / Math.max(usual, 1e-9)) : (value) => value - lowest;
    const most = squeeze(highest) || 1;
    const height = (value) => below - 4 - (squeeze(value) / most) * (below - above - 16);
    context.textAlign = "right";
    const marks = far ? [lowest, lowest + usual, highest] : ticks(lowest, highest, 3);
    let before = Infinity;
    for (const value of marks) {
      const at = height(value);
      if (before - at < 12) continue;
      before = at;
      context.fillStyle = grid;
      context.fillRect(left, Math.round(at), plot, 1);
      context.fillStyle = soft;
      context.fillText(number(value), left - 6, at);
    }
    context.fillStyle = soft;
    for (const row of rows) {
      const x = place(this.x(row));
      if (row.novelty === null || row.novelty === undefined || x < left || x > left + plot) continue;
      context.fillRect(x - 1, height(row.novelty) - 1, 2, 2);
    }
    for (const row of alarms) {
      const x = place(this.x(row));
      if (row.novelty === null || row.novelty === undefined || x < left || x > left + plot) continue;
      const at = height(row.novelty);
      context.fillStyle = grid;
      context.fillRect(x - 0.5, at, 1, below - at);
      context.beginPath();
      context.moveTo(x, at - 7);
      context.lineTo(x + 6, at + 4);
      context.lineTo(x - 6, at + 4);
      context.closePath();
      context.fillStyle = alarm;
      context.strokeStyle = paper;
      context.lineWidth = 1.5;
      context.stroke();
      context.fill();
    }
  }

  drawAxis(context, { lo, hi, left, plot, place, below }) {
    const { soft, grid } = page();
    context.fillStyle = soft;
    context.fillRect(left, below, plot, 1);
    const dated = this.clock === "dates" && this.axis === "time";
    const n = Math.max(2, Math.floor(plot / (dated ? 65 : 80)));
    const marks = dated ? dateTicks(lo, hi, n) : ticks(lo, hi, n).map((at) => [at, number(at)]);
    context.textAlign = "center";
    for (const [at, words] of marks) {
      const x = place(at);
      const half = context.measureText(words).width / 2;
      if (x < left || x > left + plot) continue;
      context.fillStyle = grid;
      context.fillRect(Math.round(x), below, 1, 5);
      context.fillStyle = soft;
      context.fillText(words, Math.min(Math.max(x, left + half), left + plot - half), below + 13);
    }
    context.textAlign = "right";
    context.fillText(dated ? "time (local)" : this.axis === "row" || this.clock === "index" ? "row" : "time", left + plot, below + 28);
  }

  /** Say in words what is drawn. */
  describe(rows, ids) {
    let text = "No row has a final table yet.";
    if (rows.length) {
      const last = rows.at(-1);
      const alarms = this.alarmsOf(rows).length;
      const tables = ids.length - (this.others ? 1 : 0) + this.others;
      text = `Drawing of rows ${count(rows[0].row)} to ${count(last.row)}: which of ${plural(tables, "table")} each joined, and its novelty. `
        + `${plural(alarms, "alarm")}. The latest row joined ${tableName(last.table, this.names(last.table))}, novelty ${number(last.novelty)}.`;
    }
    // A label that changes with every frame would be read again and again by some screen readers.
    clearTimeout(this.labelling);
    const label = () => {
      this.labelled = Date.now();
      this.canvas.setAttribute("aria-label", text);
    };
    const wait = 2000 - (Date.now() - (this.labelled ?? 0));
    if (wait <= 0) label();
    else this.labelling = setTimeout(label, wait);
    this.canvas.dataset.rows = rows.length;
    this.canvas.dataset.last = rows.at(-1)?.row ?? "";
    this.canvas.dataset.alarms = this.alarmsOf(rows).length;
  }

  lineAt(event) {
    if (!this.shown) return undefined;
    const { top, ids } = this.shown;
    return ids[Math.floor((event.offsetY - top) / LINE)];
  }

  /** Say which row is under the pointer. */
  point(event) {
    if (!this.shown || event.offsetX < this.shown.left - 3) {
      this.tip.hidden = true;
      this.canvas.style.cursor = this.lineAt(event) >= 0 ? "pointer" : "default";
      return;
    }
    const { rows, place, bottom, height } = this.shown;
    const line = event.offsetY < bottom ? this.lineAt(event) : undefined;
    this.canvas.style.cursor = line >= 0 ? "pointer" : "default";
    let best = null;
    let distance = 8;
    for (const row of rows.concat(this.alarmsOf(rows))) {
      if (line !== undefined && line >= 0 && row.table !== line) continue;
      const away = Math.abs(place(this.x(row)) - event.offsetX);
      // Of rows as near, an alarm is the one that was meant.
      if (away < distance || (away < 5 && best && this.alarms.has(row.row) && !this.alarms.has(best.row))) {
        best = row;
        distance = away;
      }
    }
    this.tip.hidden = !best;
    if (!best) return;
    const time = this.clock === "index" ? "" : `, ${timeText(best.time)}`;
    const p = best.p === null || best.p === undefined ? "" : `, p ${number(best.p)}`;
    this.tip.textContent = `${this.alarms.has(best.row) ? "▲ alarm: " : ""}row ${count(best.row)}${time}: ${tableName(best.table, this.names(best.table))}, novelty ${number(best.novelty)}${p}`;
    const side = event.offsetX > this.root.clientWidth / 2;
    this.tip.style.left = side ? "" : `${event.offsetX + 12}px`;
    this.tip.style.right = side ? `${this.root.clientWidth - event.offsetX + 12}px` : "";
    this.tip.style.top = `${Math.min(event.offsetY + 14, height - 40)}px`;
  }
}

function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
