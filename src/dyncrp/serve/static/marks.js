// The colour and the shape of a table. A colour belongs to a cluster: Okabe and Ito's hues and four more, told apart by
// the colour-blind, dark (or light) enough to stand at 3 : 1 against the page. No two clusters of the page share a colour:
// where there are more than twelve, the smallest are grey. The shapes tell tables apart in greyscale.

const LIGHT = ["#0072b2", "#c27c00", "#008a64", "#c0609a", "#2f93d0", "#d55e00", "#4b1d5c", "#8f8400", "#7a4a2b", "#5b6fd6", "#a3173f", "#3f7d20"];
const DARK = ["#4aa3e0", "#e69f00", "#12b886", "#e08bbe", "#9ad0f5", "#f0743a", "#a98be0", "#d6cb45", "#c79a75", "#7f93ff", "#ff6f91", "#8fd15f"];

/** What a canvas needs to know of the theme; the style sheet has the same colours. */
const PAGES = {
  light: { tables: LIGHT, ink: "#1c2126", soft: "#545d67", grid: "#dde2e7", band: "#e8f1fa", paper: "#ffffff", alarm: "#b3001b", other: "#7d8791" },
  dark: { tables: DARK, ink: "#e8ecf0", soft: "#a3adb8", grid: "#323a43", band: "#22384c", paper: "#171b20", alarm: "#ff8080", other: "#8d97a2" },
};

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

export function page() {
  const chosen = document.documentElement.dataset.theme;
  return PAGES[chosen ?? (darkSystem.matches ? "dark" : "light")];
}

/** Call back when the system's theme changes. */
export function onSystemTheme(changed) {
  darkSystem.addEventListener("change", changed);
}

let clusterOf = new Map(); // of open tables
const slots = new Map(); // cluster -> the number of its colour

/** Give the clusters of tables colours, those that come first before others; a cluster keeps its colour. */
export function assign(clusters, order) {
  clusterOf = clusters;
  const taken = new Map();
  for (const id of order) {
    const slot = slots.get(id);
    if (slot !== undefined && !taken.has(slot)) taken.set(slot, id);
  }
  for (const id of order) {
    if (taken.size === LIGHT.length) break;
    if (taken.get(slots.get(id)) === id) continue;
    let slot = ((id % LIGHT.length) + LIGHT.length) % LIGHT.length;
    while (taken.has(slot)) slot = (slot + 1) % LIGHT.length;
    taken.set(slot, id);
  }
  slots.clear();
  for (const [slot, id] of taken) slots.set(id, slot);
  recolour();
}

export const colour = (table) => {
  const slot = slots.get(clusterOf.get(table) ?? table);
  return slot === undefined ? page().other : page().tables[slot];
};

// Shapes in a square from −1 to 1.
const polygon = (...points) => `M${points.map(([x, y]) => `${x} ${y}`).join("L")}Z`;
const SHAPES = [
  "M-0.85 0A0.85 0.85 0 1 0 0.85 0A0.85 0.85 0 1 0 -0.85 0Z",
  polygon([-0.75, -0.75], [0.75, -0.75], [0.75, 0.75], [-0.75, 0.75]),
  polygon([0, -0.9], [0.95, 0.75], [-0.95, 0.75]),
  polygon([0, -1], [1, 0], [0, 1], [-1, 0]),
  polygon([0, 0.9], [0.95, -0.75], [-0.95, -0.75]),
  polygon([-0.9, 0], [0.75, -0.95], [0.75, 0.95]),
  polygon([0.9, 0], [-0.75, -0.95], [-0.75, 0.95]),
  polygon([-0.3, -0.9], [0.3, -0.9], [0.3, -0.3], [0.9, -0.3], [0.9, 0.3], [0.3, 0.3], [0.3, 0.9], [-0.3, 0.9], [-0.3, 0.3], [-0.9, 0.3], [-0.9, -0.3], [-0.3, -0.3]),
];
const shape = (table) => SHAPES[(((table + 3 * Math.floor(table / 8)) % 8) + 8) % 8];
const paths = SHAPES.map((text) => new Path2D(text));

/** Fill a table's shape on a canvas, its middle at (x, y). */
export function drawMark(context, table, x, y, radius) {
  context.save();
  context.translate(x, y);
  context.scale(radius, radius);
  context.fillStyle = colour(table);
  context.fill(paths[SHAPES.indexOf(shape(table))]);
  context.restore();
}

const SVG = "http://www.w3.org/2000/svg";

/** Return a table's shape as an element, which follows the theme by recolour(). */
export function markOf(table) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "-1.1 -1.1 2.2 2.2");
  svg.setAttribute("class", "mark");
  svg.setAttribute("aria-hidden", "true");
  svg.dataset.table = table;
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", shape(table));
  path.setAttribute("fill", colour(table));
  svg.append(path);
  return svg;
}

/** Give every mark on the page the colour of the theme. */
export function recolour() {
  for (const svg of document.querySelectorAll("svg.mark")) {
    svg.firstChild.setAttribute("fill", colour(Number(svg.dataset.table)));
  }
  for (const path of document.querySelectorAll(".spark path")) path.setAttribute("fill", colour(Number(path.dataset.table)));
}
