// The list of streams, and how to make the first one.

import { hasToken } from "./api.js";
import { plural } from "./words.js";

const $ = (id) => document.getElementById(id);

/** List the streams, if there are several. current: the name of the one that is shown. */
export function showStreams(found, current) {
  $("streams").hidden = found.length < 2;
  const list = $("streams").querySelector("ul");
  const text = JSON.stringify([found, current]);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  const held = document.activeElement?.closest?.("#streams a")?.hash;
  list.replaceChildren(...found.map(({ name, rows, tables: open }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `#${encodeURIComponent(name)}`;
    link.textContent = name;
    if (name === current) link.setAttribute("aria-current", "page");
    const facts = document.createElement("span");
    facts.textContent = ` ${plural(rows, "row")}, ${plural(open, "table")}`;
    link.append(facts);
    item.append(link);
    return item;
  }));
  if (held) [...list.querySelectorAll("a")].find((link) => link.hash === held)?.focus();
}

/** Show the commands that make a stream. */
export function showCommand() {
  const here = new URL("streams/doors", location.href).href.replace(/#.*/, "");
  const token = hasToken() ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const json = `-H 'Content-Type: application/json'`;
  $("empty-command").textContent = [
    `curl -X PUT ${here}${token} ${json} \\`,
    `     -d '{"features": ["x", "y"], "alarm_rate": 0.001, "n_examples": 5}'`,
    `curl -X POST ${here}/rows${token} ${json} \\`,
    `     -d '{"rows": [[0.1, 0.2], [5.0, 5.1]]}'`,
  ].join("\n");
}
