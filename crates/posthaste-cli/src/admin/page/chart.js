// A chart of the last quarter of an hour, drawn as SVG. Only paths change, so nothing flickers.

import { h, say, svg } from "./dom.js";
import { duration } from "./format.js";

const QUARTER = 15 * 60_000;
const SHORTEST = 60_000;
// Between two marks of the time, in seconds: the first that makes few enough of them.
const MARKS = [15, 30, 60, 120, 300];
// Longer without a point, and the line breaks.
const GAP = 35_000;
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 10, 10, 22];

// lines: [{ name, of: point => number | null }], format: number => text
export function chart({ title, lines, format, least = 1, nice = round }) {
  const values = lines.map(() => h("b"));
  const at = h("span.at");
  const legend = h("p.legend", {}, lines.map((line, place) => h("span", { "data-line": place }, h("i"), line.name, " ", values[place])), at);
  const grid = svg("g.grid");
  const area = svg("path.area", { "data-line": 0 });
  const paths = lines.map((_, place) => svg("path.line", { "data-line": place }));
  const cross = svg("line.cross", { visibility: "hidden" });
  const picture = svg("svg", { role: "img" }, grid, area, paths.toReversed(), cross);
  const node = h("figure.chart.card", {}, h("figcaption", {}, h("h3", {}, title), legend), picture);
  let points = [];
  let hovered = null;

  function draw() {
    const { width, height } = picture.getBoundingClientRect();
    if (!width) return;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const end = points.at(-1)?.at ?? Date.now();
    const begin = Math.max(end - QUARTER, Math.min(points[0]?.at ?? end, end - SHORTEST));
    const seen = points.filter((point) => point.at >= begin);
    const top = nice(Math.max(least, ...seen.flatMap((point) => lines.map((line) => line.of(point) ?? 0))));
    const x = (time) => LEFT + ((time - begin) / (end - begin)) * (width - LEFT - RIGHT);
    const y = (value) => height - BOTTOM - (value / top) * (height - TOP - BOTTOM);
    rule(width, height, top, begin, end, y);
    lines.forEach((line, place) => paths[place].setAttribute("d", path(seen, line.of, x, y)));
    area.setAttribute("d", filled(seen, lines[0].of, x, y));
    const point = hovered == null ? seen.at(-1) : nearest(seen, begin + ((hovered - LEFT) / (width - LEFT - RIGHT)) * (end - begin));
    lines.forEach((line, place) => say(values[place], point ? format(line.of(point)) : "–"));
    say(at, hovered != null && point ? new Date(point.at).toLocaleTimeString() : "");
    cross.setAttribute("visibility", hovered != null && point ? "visible" : "hidden");
    if (hovered != null && point) {
      for (const [name, value] of [["x1", x(point.at)], ["x2", x(point.at)], ["y1", TOP], ["y2", height - BOTTOM]]) cross.setAttribute(name, value);
    }
    const told = lines.map((line, place) => `${line.name} ${values[place].textContent}`).join(", ");
    picture.setAttribute("aria-label", `${title}: ${told}`);
  }

  function rule(width, height, top, begin, end, y) {
    const sign = [width, height, top, Math.round((end - begin) / 1000)].join();
    if (grid.sign === sign) return;
    grid.sign = sign;
    const steps = [0, top / 2, top];
    const span = (end - begin) / 1000;
    const every = MARKS.find((it) => span / it <= (width < 400 ? 2.5 : 4)) ?? MARKS.at(-1);
    // Not so near to the left that a mark would be cut.
    const marks = Array.from({ length: Math.floor(span / every) }, (_, place) => (place + 1) * every).filter((it) => span - it > every / 6);
    const x = (ago) => width - RIGHT - (ago / span) * (width - LEFT - RIGHT);
    grid.replaceChildren(
      ...steps.map((value) => svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) })),
      ...marks.map((ago) => svg("line.mark", { x1: x(ago), x2: x(ago), y1: TOP, y2: height - BOTTOM })),
      ...steps.map((value) => svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, format(value).replace(".0 ", " "))),
      ...marks.map((ago) => svg("text", { x: x(ago), y: height - 4, "text-anchor": "middle" }, `${duration(ago)} ago`)),
      svg("text", { x: width - RIGHT, y: height - 4, "text-anchor": "end" }, "now"),
    );
  }

  picture.addEventListener("pointermove", (event) => {
    hovered = event.clientX - picture.getBoundingClientRect().left;
    draw();
  });
  picture.addEventListener("pointerleave", () => {
    hovered = null;
    draw();
  });
  new ResizeObserver(draw).observe(picture);
  return {
    node,
    show(now) {
      points = now;
      draw();
    },
  };
}

function path(points, of, x, y) {
  let text = "";
  let before = null;
  for (const point of points) {
    const value = of(point);
    if (value == null) {
      before = null;
      continue;
    }
    text += `${before == null || point.at - before > GAP ? "M" : "L"}${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
    before = point.at;
  }
  return text;
}

function filled(points, of, x, y) {
  const line = path(points, of, x, y);
  // One stretch only: with gaps, the line has to do.
  if (!line || line.lastIndexOf("M") > 0) return "";
  const told = points.filter((point) => of(point) != null);
  return `${line}L${x(told.at(-1).at).toFixed(1)} ${y(0)}L${x(told[0].at).toFixed(1)} ${y(0)}Z`;
}

const nearest = (points, time) =>
  points.reduce((best, point) => (best && Math.abs(best.at - time) < Math.abs(point.at - time) ? best : point), null);

// The next of 1, 2, 3, 4, 6, 8, 10, 20 …: half of it is a round number, too.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

// The same for seconds, which people count in minutes and hours when there are many.
const TIMES = [1, 2, 4, 6, 10, 20, 30, 60, 120, 240, 480, 720, 1440].map((minutes) => minutes * 60);
export const roundTime = (value) => (value <= 30 ? round(value) : (TIMES.find((time) => time >= value) ?? round(value / 86_400) * 86_400));
