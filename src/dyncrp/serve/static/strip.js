// The strip at the top: how often rows come, how old the last one is, open clusters, and alarms against those expected.

import { count, number, plural } from "./words.js";

const QUIET = 5; // seconds without a row, or without a word of the server, after which the lamp is amber

/** Return a length of time in seconds in a few words. */
export function ago(seconds) {
  if (seconds < 1) return "just now";
  const units = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([length]) => seconds >= 2 * length) ?? units.at(-1);
  return `${count(Math.floor(seconds / size))} ${unit} ago`;
}

export class Strip {
  /** parts: the elements rate, age, clusters, alarms and expected. changed() is called when the state may have changed. */
  constructor({ parts, changed }) {
    Object.assign(this, { parts, changed });
    this.clear();
    setInterval(() => this.show(), 500);
  }

  clear() {
    this.pulse = null;
    this.told = null; // ms: when the pulse was told
    this.clusters = null;
    this.alarmRate = null;
    this.show();
  }

  /** Take what the server says of the stream: {age, rows_a_second, hour}. */
  beat(pulse) {
    this.pulse = pulse;
    this.heard();
    this.show();
  }

  /** Take the number of open clusters, and the alarm rate that was asked for, null if none was. */
  about(clusters, alarmRate) {
    Object.assign(this, { clusters, alarmRate });
    this.show();
  }

  /** Rows have come this moment. */
  row() {
    if (this.pulse) this.pulse = { ...this.pulse, age: 0 };
    this.heard();
  }

  heard() {
    if (this.pulse) this.pulse.at = Date.now();
    this.told = Date.now();
  }

  /** Return the age of the last row in seconds, null if no row has come since the server started. */
  age() {
    return this.pulse?.age == null ? null : this.pulse.age + (Date.now() - this.pulse.at) / 1000;
  }

  /** Return how the stream is doing while the connection stands: "live", "quiet" or "silent" (of the server). */
  state() {
    if (this.told !== null && Date.now() - this.told > QUIET * 1000) return "silent";
    const age = this.age();
    return age === null || age > QUIET ? "quiet" : "live";
  }

  /** Return for how many seconds the server has said nothing, in steps of five, so that it is not read aloud every second. */
  silence() {
    return 5 * Math.floor((Date.now() - this.told) / 5000);
  }

  show() {
    const { rate, age, clusters, alarms, expected } = this.parts;
    const put = (element, text) => {
      if (element.textContent !== text) element.textContent = text;
    };
    const { pulse } = this;
    const since = this.age();
    put(rate, pulse && since !== null ? number(since > 10 ? 0 : Number(pulse.rows_a_second.toPrecision(2))) : "–");
    put(age, since === null ? "–" : ago(since));
    put(clusters, count(this.clusters));
    const hour = pulse?.hour;
    put(alarms, hour && this.alarmRate ? count(hour.alarms) : "–");
    const due = hour && this.alarmRate ? hour.rows * this.alarmRate : null;
    put(expected, due === null
      ? (pulse && !this.alarmRate ? "no alarm rate was asked for" : "")
      : `${due < 10 ? number(Number(due.toPrecision(2))) : count(due)} expected of ${plural(hour.rows, "row")}`);
    alarms.parentElement.classList.toggle("much", due !== null && hour.alarms > due + 3 * Math.sqrt(due) + 3);
    this.changed();
  }
}
