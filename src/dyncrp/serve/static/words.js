// Numbers, times and events in words. The page is in English, and so are its numbers; times are the reader's local ones.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 12 });
const scientific = new Intl.NumberFormat("en", { notation: "scientific", maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const dateAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const timeOnly = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const NONE = "–";

export const count = (n) => (n === null || n === undefined ? NONE : whole.format(n));
export const share = (x) => (x === null || x === undefined ? NONE : x > 0 && x < 0.0005 ? "<0.1%" : percent.format(x));

export function number(x) {
  if (x === null || x === undefined) return NONE;
  if (typeof x !== "number") return String(x);
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e15) return whole.format(x);
  return size !== 0 && (size < 1e-3 || size >= 1e7) ? scientific.format(x).replace("E", "e") : significant.format(x);
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Return a time as a number by which it is drawn: ms since 1970 of a date. */
export function asNumber(time) {
  return typeof time === "number" ? time : time === null || time === undefined ? NaN : new Date(time).getTime();
}

export const clockTime = (ms) => timeOnly.format(ms);

/** Return a time in words; brief: a date without what goes without saying, the day if it is today, else seconds. */
export function timeText(time, brief = false) {
  if (typeof time === "number") return precise.format(time);
  if (time === null || time === undefined) return NONE;
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const now = new Date();
  if (brief && date.toDateString() === now.toDateString()) return timeOnly.format(date);
  if (brief && date.getFullYear() === now.getFullYear()) return dayAndTime.format(date);
  return dateAndTime.format(date);
}

/** Show a time in an element: a date in local time, with UTC in the title. */
export function showTime(element, time, brief = false) {
  const text = timeText(time, brief);
  if (element.textContent !== text) element.textContent = text;
  if (typeof time === "string") {
    const date = new Date(time);
    element.title = Number.isNaN(date.getTime()) ? "" : `${date.toISOString().replace("T", " ").replace(/\.000Z$|Z$/, "")} UTC`;
  } else {
    element.removeAttribute("title");
  }
}

/** Return a length of time in words: of dates in seconds, else in the clock's own unit. */
function duration(length, clock) {
  if (clock === "index") return plural(length, "row");
  if (clock !== "dates") return number(length);
  const units = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [size, unit] = units.find(([seconds]) => length >= 2 * seconds) ?? units.at(-1);
  return plural(Math.round(length / size), unit);
}

/** What a table is called: its name, or "table 3". */
export const tableName = (id, name) => name || `table ${id}`;

/** The same with its id, where both are of use. */
export const tableNameAndId = (id, name) => (name ? `${name} (table ${id})` : `table ${id}`);

/** Symbols of the kinds of events, so that they are told apart without colour. */
export const SYMBOLS = { alarm: "▲", surge: "⇈", growing: "↗", fading: "↘", opened: "+", returned: "↩", closed: "×", merged: "⇉", unmerged: "⇇", renamed: "✎", joined: "⊂", parted: "⊄" };

/** Return an event, which may stand for several, in words: texts, {verb} for what happened, and {table, name} where a table is spoken of. */
export function eventParts(event, clock, times = 1) {
  const { what = {}, table, name } = event;
  const it = { table, name };
  switch (event.kind) {
    case "opened":
      if (what.split_from === undefined) return [it, { verb: " opened" }];
      return [it, { verb: " split" }, ` from table ${what.split_from}`];
    case "returned":
      if (times > 1) return [it, { verb: ` returned ${count(times)} times` }, `, lately after ${duration(what.absence, clock)}`];
      return [it, { verb: " returned" }, ` after ${duration(what.absence, clock)}`];
    case "closed":
      return [it, { verb: " closed" }];
    case "merged":
      return [
        `table ${what.merged} `,
        { verb: "merged" },
        " into ",
        it,
        ...(what.far_apart ? [". They lie too far apart for one table: rows like theirs will open others"] : []),
      ];
    case "unmerged":
      return [{ verb: "Undone" }, `: table ${what.merged} is no longer merged into `, it];
    case "renamed":
      if (!name) return [it, { verb: " unnamed" }, `: it was “${what.before}”`];
      if (!what.before) return [`table ${table} `, { verb: "named" }, " ", it];
      return [`“${what.before}”, table ${table}, `, { verb: "renamed" }, " ", it];
    case "joined":
      if (what.before === table) return [`cluster ${table} `, { verb: "is now part" }, ` of cluster ${event.cluster}`];
      return [`${plural(what.tables.length, "table")} of cluster ${what.before} `, { verb: "joined" }, ` cluster ${event.cluster}`];
    case "parted":
      return [`cluster ${event.cluster} `, { verb: "is no longer part" }, ` of cluster ${what.before}`];
    case "alarm":
      return [
        { verb: "Alarm" },
        `: row ${count(event.row)} is unusual (novelty ${number(what.novelty)}, p ${number(what.p)}). It joined `,
        it,
      ];
    case "surge":
    case "growing":
    case "fading": {
      const verb = { surge: " surges", growing: " is growing", fading: " is fading" }[event.kind];
      const counted = event.cluster === null ? [it] : ["cluster of ", it]; // streams that keep their clusters count these
      return [...counted, { verb }, `: ${plural(what.count, "row")} of the latest ${count(what.rows)}, ${number(Math.round(what.expected))} expected`];
    }
    default:
      return [`${event.kind}: `, it];
  }
}

export function eventText(event, clock) {
  return eventParts(event, clock)
    .map((part) => (typeof part === "string" ? part : (part.verb ?? tableName(part.table, part.name))))
    .join("");
}
