// What stands on an axis: round numbers, round times, and texts that fit.

const DATE_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400]
  .concat([2, 3, 4, 7, 14, 30, 91, 182, 365, 730, 1826, 3652].map((days) => 86_400 * days));
const clockFace = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const secondsFace = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFace = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const yearFace = new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric" });

/** Return some n round numbers from lo to hi. */
export function ticks(lo, hi, n) {
  const raw = (hi - lo) / Math.max(n, 1);
  if (!(raw > 0)) return [lo];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * (1 - 1e-9));
  const found = [];
  for (let at = Math.ceil(lo / step); at * step <= hi + step * 1e-9; at += 1) found.push(at * step + 0); // no −0
  return found;
}

/** Return some n round times of the local clock, with their words. lo, hi: ms since 1970. */
export function dateTicks(lo, hi, n) {
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

/** Return a text that is at most so wide. */
export function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
