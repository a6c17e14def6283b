// The moving drawing: which cluster or table each of the latest rows joined, and below it how novel the row was, alarms
// marked. Of a stretch of time it draws buckets as the server keeps them; dragging over it zooms in.

import { dateTicks, shorten, ticks } from "./axis.js";
import { colour, drawMark, page } from "./marks.js";
import { SYMBOLS, asNumber, clockTime, count, number, plural, timeText } from "./words.js";

const LINE = 20; // px a table
const NOVELTY = 84; // px
const AXIS = 34; // px
const TOP = 18; // px, for the words above
const GLIDE = 350; // ms in which new rows push the old ones aside
const FAR = 30; // times the usual height, from where heights are drawn as logarithms
const still = matchMedia("(prefers-reduced-motion: reduce)");
export class Timeline {
  /**
   * names(id) gives the name of a table, or of a cluster if lines are clusters; clusters(id) a table's cluster or null;
   * chosen(id) is called when a line is clicked, zoomed() when another stretch is to be shown.
   */
  constructor(root, { names, clusters, chosen, zoomed }) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.tip = root.querySelector(".tip");
    Object.assign(this, { names, clusters, zoomed });
    this.size = 2000; // rows
    this.span = null; // seconds, instead of a number of rows; Infinity for everything
    this.axis = "time";
    this.by = "clusters";
    this.selected = null;
    this.paused = false;
    this.clear("index");
    new ResizeObserver(() => this.redraw()).observe(root);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (event) => {
      const line = this.dragged ? undefined : this.lineAt(event);
      if (line !== undefined && line >= 0) chosen(line);
    });
    this.canvas.addEventListener("pointerdown", (event) => this.grasp(event));
    this.canvas.addEventListener("pointerup", (event) => this.release(event));
    this.canvas.addEventListener("pointercancel", () => this.release(null));
    this.canvas.addEventListener("dblclick", () => this.zoomOut());
  }

  // Zoom

  grasp(event) {
    this.dragged = false;
    if (event.button !== 0 || !this.shown || event.offsetX < this.shown.left) return;
    this.grip = { from: event.offsetX, to: event.offsetX };
    this.canvas.setPointerCapture(event.pointerId);
  }

  release(event) {
    const { grip } = this;
    this.grip = null;
    if (!grip || !event || !this.dragged) return this.redraw();
    const { left, right, place } = this.shown;
    const inside = [grip.from, grip.to].map((x) => Math.min(Math.max(x, left), right)).sort((a, b) => a - b);
    const zoom = inside.map(place.back);
    if (zoom[1] > zoom[0]) {
      this.zoom = zoom;
      this.zoomed();
    }
    this.redraw();
  }

  zoomOut() {
    if (!this.zoom) return;
    this.zoom = null;
    this.zoomed();
    this.redraw();
  }

  /** Show so many rows, or so many seconds. */
  range({ rows = null, span = null }) {
    this.size = rows ?? 2000;
    this.span = span;
    this.zoom = null;
    this.view = null;
    this.buckets = null;
    this.redraw();
  }

  clear(clock) {
    this.clock = clock;
    this.rows = [];
    this.surges = new Map(); // of an event's id -> the event
    this.alarms = new Map(); // row -> its event: an alarm is drawn even if the server has left its row out
    this.view = null;
    this.shown = null;
    this.zoom = null;
    this.buckets = null;
    this.redraw();
  }

  /** Take buckets of time in, as the server sends them. */
  history({ width, begins, rows, alarms, novelty, tables, now, dated }) {
    const buckets = begins.map((begin, i) => ({
      from: 1000 * begin, to: 1000 * (begin + width), x: 1000 * (begin + width / 2), count: rows[i], alarms: alarms[i], novelty: novelty[i],
    }));
    const cells = [];
    for (const [id, pairs] of Object.entries(tables)) {
      for (const [at, n] of pairs) {
        const bucket = buckets[at];
        cells.push({ bucket, x: bucket.x, table: Number(id), n });
      }
    }
    this.buckets = { all: buckets, cells, now: 1000 * now, dated, width };
    if (this.paused && !this.zoom && this.frozenBuckets) return;
    this.redraw();
  }

  /** Return how many rows each of some tables had in n equal parts of what is drawn. */
  spark(ids, n = 40) {
    const found = new Array(n).fill(0);
    if (!this.shown) return found;
    const of = new Set(ids);
    const [lo, hi] = this.shown.ends;
    for (const cell of this.shown.rows) {
      if (!of.has(cell.table)) continue;
      const at = Math.floor((n * (this.x(cell) - lo)) / (hi - lo));
      found[Math.min(Math.max(at, 0), n - 1)] += cell.n ?? 1;
    }
    return found;
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
      for (const [id, { row }] of this.surges) if (row < this.rows[0].row) this.surges.delete(id);
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

  surge({ id, kind, row, time, table }) {
    this.surges.set(id, { kind, row, time, x: asNumber(time), table });
    this.redraw();
  }

  /** Return the surges among the rows that are shown; buckets of time do not show them. */
  surgesOf(rows) {
    if (this.span || !rows.length) return [];
    return [...this.surges.values()].filter(({ row }) => row >= rows[0].row && row <= rows.at(-1).row);
  }

  /** Return the alarms among the rows that are shown. */
  alarmsOf(rows) {
    if (this.span) return this.told.filter(({ alarms }) => alarms > 0);
    return rows.length ? [...this.alarms.values()].filter(({ row }) => row >= rows[0].row && row <= rows.at(-1).row) : [];
  }

  merged(old, into) {
    for (const row of this.rows) if (row.table === old) row.table = into;
    this.redraw();
  }

  pause(paused) {
    this.paused = paused;
    this.frozen = paused ? this.latest() : null;
    this.frozenBuckets = paused ? this.buckets : null;
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame((now) => {
      this.frame = null;
      this.draw(now);
    });
  }

  x(row) {
    if (this.span) return row.x;
    return this.axis === "row" || this.clock === "index" || Number.isNaN(row.x) ? row.row : row.x;
  }

  /** Return the line of a table: its cluster, or itself. */
  line(table) {
    return this.by === "clusters" ? (this.clusters(table) ?? table) : table;
  }

  /** Return the lines to draw, in the order of opening; of too many, the largest, and -1 for the others. */
  lines(rows) {
    const sizes = new Map();
    for (const { table, n = 1 } of rows) {
      if (table < 0) continue; // the server has counted them together
      const line = this.line(table);
      sizes.set(line, (sizes.get(line) ?? 0) + n);
    }
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

  /** Return what is drawn: rows, or cells of buckets. */
  drawn() {
    if (this.span) {
      const buckets = (this.paused && !this.zoom && this.frozenBuckets) || this.buckets;
      this.told = buckets?.all ?? [];
      return buckets?.cells ?? [];
    }
    const rows = this.paused ? this.frozen : this.latest();
    if (!this.zoom) return rows;
    const [lo, hi] = this.zoom;
    return rows.filter((row) => this.x(row) >= lo && this.x(row) <= hi);
  }

  /** Return the ends of the drawing. */
  ends(rows) {
    if (this.zoom) return this.zoom;
    if (!this.span) return [this.x(rows[0]), this.x(rows.at(-1))];
    const { now, all } = (this.paused && this.frozenBuckets) || this.buckets;
    return this.span === Infinity ? [all[0].from, Math.max(all.at(-1).to, now)] : [now - 1000 * this.span, now];
  }

  draw(now) {
    const rows = this.drawn();
    const { ink, soft, grid, band, paper } = page();
    const ids = this.lines(rows);
    const width = this.root.clientWidth;
    const narrow = width < 600;
    const left = narrow ? 104 : 132;
    const joined = this.by === "tables" && ids.some((id) => id >= 0 && this.clusters(id) !== null && this.clusters(id) !== id);
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
      context.fillText(this.empty(), 12, top + 30);
      this.view = null;
      return;
    }

    // The ends of the drawing glide to those of the rows, unless the reader prefers stillness or the jump is far.
    const aim = [...this.ends(rows)];
    if (aim[0] === aim[1]) aim[1] += 1;
    const span = aim[1] - aim[0];
    const kind = `${this.axis} ${this.size} ${this.span} ${this.zoom}`;
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
    place.back = (at) => lo + ((at - left - 2) / (plot - 4)) * (hi - lo);

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
      const label = id < 0 ? `${this.others} others` : this.nameOf(id);
      context.fillText(shorten(context, label, left - 26), 20, middle + 1);
      const cluster = id < 0 || !joined ? null : this.clusters(id);
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
      const line = row.table < 0 ? -1 : this.line(row.table);
      const middle = y.get(line) ?? y.get(-1);
      if (middle === undefined) continue;
      context.fillStyle = y.has(line) && line >= 0 ? colour(row.table) : soft;
      if (row.bucket) {
        const begin = snap(place(row.bucket.from));
        const tall = Math.max(3, 15 * (row.n / row.bucket.count)); // as high as its share of the rows of that time
        context.fillRect(begin, middle + 8 - tall, Math.max(snap(place(row.bucket.to)) - begin, 1), tall);
        continue;
      }
      const x = place(this.x(row));
      const begin = snap(x - thick / 2);
      context.fillRect(begin, middle - 7, Math.max(snap(x + thick / 2) - begin, 1), 15);
    }
    context.restore();
    this.drawSurges(context, rows, { y, left, plot, place });

    this.drawNovelty(context, rows, { left, plot, place, above: bottom + 14, below: bottom + 14 + NOVELTY });
    this.drawAxis(context, { lo, hi, left, plot, place, top, below: bottom + 14 + NOVELTY });
    if (this.grip && this.dragged) {
      const [begin, end] = [this.grip.from, this.grip.to].sort((a, b) => a - b);
      context.fillStyle = ink;
      context.globalAlpha = 0.15;
      context.fillRect(begin, 0, end - begin, height - AXIS);
      context.globalAlpha = 1;
    }
    this.shown = { rows, ids, place, top, bottom, left, right: left + plot, height, ends: [lo, hi] };
  }

  nameOf(id) {
    return this.names(id) || (this.by === "clusters" ? `cluster ${id}` : `table ${id}`);
  }

  empty() {
    return this.span && this.buckets ? "No row in this time." : this.span ? "Fetching …" : this.zoom ? "No row here." : "No row has a final table yet.";
  }

  /** Draw the symbols of surges on the lines of their tables, each on a disc that parts it from the rows. */
  drawSurges(context, rows, { y, left, plot, place }) {
    const { ink, paper } = page();
    context.textAlign = "center";
    for (const event of this.surgesOf(rows)) {
      const middle = y.get(this.line(event.table)) ?? y.get(-1);
      const x = place(this.x(event));
      if (middle === undefined || x < left || x > left + plot) continue;
      context.beginPath();
      context.arc(x, middle, 8, 0, 2 * Math.PI);
      context.fillStyle = paper;
      context.strokeStyle = ink;
      context.lineWidth = 1;
      context.fill();
      context.stroke();
      context.fillStyle = ink;
      context.fillText(SYMBOLS[event.kind], x, middle + 1);
    }
  }

  drawNovelty(context, rows, { left, plot, place, above, below }) {
    const { soft, ink, grid, alarm, paper } = page();
    const alarms = this.alarmsOf(rows);
    if (this.span) rows = this.told; // the highest novelty of each bucket
    const values = rows.concat(alarms).map((row) => row.novelty).filter((value) => value !== null && value !== undefined);
    context.textAlign = "left";
    context.fillStyle = ink;
    context.fillText(this.span ? "highest novelty" : "novelty", 6, above + 8);
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
    const dated = this.span || (this.clock === "dates" && this.axis === "time");
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
    context.fillText(this.span && !this.buckets.dated ? "when rows came (local time)" : dated ? "time (local)" : this.axis === "row" || this.clock === "index" ? "row" : "time", left + plot, below + 28);
  }

  /** Say in words what is drawn. */
  describe(rows, ids) {
    let text = this.empty();
    const of = this.by === "clusters" ? "cluster" : "table";
    const alarmed = this.span ? this.told.reduce((sum, bucket) => sum + bucket.alarms, 0) : this.alarmsOf(rows).length;
    if (rows.length && this.span) {
      const n = this.told.reduce((sum, bucket) => sum + bucket.count, 0);
      text = `Drawing of ${plural(n, "row")} over time, ${timeText(new Date(this.told[0].from).toISOString())} to ${timeText(new Date(this.told.at(-1).to).toISOString())}: `
        + `which of ${plural(ids.length - (this.others ? 1 : 0) + this.others, of)} they joined, and the highest novelty. ${plural(alarmed, "alarm")}.`;
    } else if (rows.length) {
      const last = rows.at(-1);
      const alarms = this.alarmsOf(rows).length;
      const tables = ids.length - (this.others ? 1 : 0) + this.others;
      text = `Drawing of rows ${count(rows[0].row)} to ${count(last.row)}: which of ${plural(tables, of)} each joined, and its novelty. `
        + `${plural(alarms, "alarm")}. The latest row joined ${this.nameOf(this.line(last.table))}, novelty ${number(last.novelty)}.`;
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
    this.canvas.dataset.rows = this.span ? this.told.reduce((sum, bucket) => sum + bucket.count, 0) : rows.length;
    this.canvas.dataset.last = this.rows.at(-1)?.row ?? "";
    this.canvas.dataset.alarms = alarmed;
    this.canvas.dataset.surges = this.surgesOf(rows).length;
    this.canvas.dataset.zoomed = this.zoom !== null;
  }

  lineAt(event) {
    if (!this.shown) return undefined;
    const { top, ids } = this.shown;
    return ids[Math.floor((event.offsetY - top) / LINE)];
  }

  /** Say which row is under the pointer. */
  point(event) {
    if (this.grip) {
      this.grip.to = event.offsetX;
      this.dragged ||= Math.abs(this.grip.to - this.grip.from) > 6;
      this.tip.hidden = true;
      if (this.dragged) this.redraw();
      return;
    }
    if (!this.shown || event.offsetX < this.shown.left - 3) {
      this.tip.hidden = true;
      this.canvas.style.cursor = this.lineAt(event) >= 0 ? "pointer" : "default";
      return;
    }
    const { rows, place, bottom } = this.shown;
    const line = event.offsetY < bottom ? this.lineAt(event) : undefined;
    this.canvas.style.cursor = line >= 0 ? "pointer" : "crosshair";
    if (this.span) {
      const at = place.back(event.offsetX);
      const bucket = this.told.find(({ from, to }) => from <= at && at < to);
      this.say(event, bucket && this.bucketText(bucket, line));
      return;
    }
    let best = null;
    let distance = 8;
    for (const row of rows.concat(this.alarmsOf(rows))) {
      if (line !== undefined && line >= 0 && this.line(row.table) !== line) continue;
      const away = Math.abs(place(this.x(row)) - event.offsetX);
      // Of rows as near, an alarm is the one that was meant.
      if (away < distance || (away < 5 && best && this.alarms.has(row.row) && !this.alarms.has(best.row))) {
        best = row;
        distance = away;
      }
    }
    if (!best) return this.say(event, null);
    const time = this.clock === "index" ? "" : `, ${timeText(best.time)}`;
    const p = best.p === null || best.p === undefined ? "" : `, p ${number(best.p)}`;
    const id = this.line(best.table);
    this.say(event, `${this.alarms.has(best.row) ? "▲ alarm: " : ""}row ${count(best.row)}${time}: ${this.nameOf(id)}, novelty ${number(best.novelty)}${p}`);
  }

  bucketText({ from, to, count: n, alarms, novelty, x }, line) {
    const when = `${timeText(new Date(from).toISOString(), true)} to ${clockTime(to)}`;
    let of = plural(n, "row");
    if (line >= 0) {
      const own = this.shown.rows.reduce((sum, cell) => sum + (cell.x === x && cell.table >= 0 && this.line(cell.table) === line ? cell.n : 0), 0);
      of = `${this.nameOf(line)}: ${count(own)} of ${of}`;
    }
    return `${alarms ? `▲ ${plural(alarms, "alarm")}, ` : ""}${when}: ${of}, highest novelty ${number(novelty)}`;
  }

  /** Show a text beside the pointer, or none. */
  say(event, text) {
    this.tip.hidden = !text;
    if (!text) return;
    const { height } = this.shown;
    this.tip.textContent = text;
    const side = event.offsetX > this.root.clientWidth / 2;
    this.tip.style.left = side ? "" : `${event.offsetX + 12}px`;
    this.tip.style.right = side ? `${this.root.clientWidth - event.offsetX + 12}px` : "";
    this.tip.style.top = `${Math.min(event.offsetY + 14, height - 40)}px`;
  }
}
