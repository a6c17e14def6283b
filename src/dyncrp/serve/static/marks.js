// The colour and the shape of a table: Okabe and Ito's hues, told apart by the colour-blind, as in the figures of
// dyncrp, but dark (or light) enough to stand at 3 : 1 against the page. The shapes tell tables apart in greyscale.

const LIGHT = ["#0072b2", "#c27c00", "#008a64", "#c0609a", "#2f93d0", "#d55e00", "#4b1d5c", "#8f8400"];
const DARK = ["#4aa3e0", "#e69f00", "#12b886", "#e08bbe", "#9ad0f5", "#f0743a", "#a98be0", "#d6cb45"];

/** What a canvas needs to know of the theme; the style sheet has the same colours. */
const PAGES = {
  light: { tables: LIGHT, ink: "#1c2126", soft: "#545d67", grid: "#dde2e7", band: "#e8f1fa", paper: "#ffffff", alarm: "#b3001b" },
  dark: { tables: DARK, ink: "#e8ecf0", soft: "#a3adb8", grid: "#323a43", band: "#22384c", paper: "#171b20", alarm: "#ff8080" },
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

export const colour = (table) => page().tables[((table % 8) + 8) % 8];

// Shapes in a square from −1 to 1. Tables 0 and 8 share a colour, and not a shape.
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
}
