// Is it keeping up? Charts of the last quarter of an hour, every outbox at a glance, and what is wrong.

import { link } from "./api.js";
import { chart, roundTime } from "./chart.js";
import { facts, h, icon, list, pill, replace } from "./dom.js";
import { count, duration, plural, rate } from "./format.js";

const KEPT = 900;
// More between two points, and the server is asked for those we missed.
const MISSED = 4000;

export function show(view) {
  const charts = {
    rates: chart({
      title: "Events a second", format: rate, least: 5,
      lines: [{ name: "out", of: (it) => it.rate_out }, { name: "in", of: (it) => it.rate_in }, { name: "failed", of: (it) => it.rate_failed }],
    }),
    latency: chart({
      title: "Latency, enqueue to delivered", format: duration, least: 0.01, nice: roundTime,
      lines: [{ name: "p50", of: (it) => it.p50 }, { name: "p95", of: (it) => it.p95 }, { name: "p99", of: (it) => it.p99 }],
    }),
    lag: chart({ title: "Lag, the oldest that waits", format: duration, nice: roundTime, lines: [{ name: "lag", of: (it) => it.lag_seconds }] }),
    backlog: chart({
      title: "Backlog", format: count, least: 10,
      lines: [{ name: "pending", of: (it) => it.pending }, { name: "processing", of: (it) => it.processing }],
    }),
    dead: chart({ title: "Dead", format: count, least: 5, lines: [{ name: "dead", of: (it) => it.dead }] }),
  };
  const cards = h("div.outboxes");
  const hints = h("div");
  const health = h("div.health");
  const destinations = h("div.stack");
  replace(view.root,
    h("div.row.spread", {}, h("h1", {}, "Overview"), health),
    cards, hints,
    h("div.charts", {}, Object.values(charts).map((it) => it.node)),
    h("h2", {}, "Destinations"), destinations);

  let points = [];
  let catching = null;
  let dead = 0;
  let known = { groups: [] };

  // Why they are dead is asked for less often than how many there are: it costs more.
  const learnDead = async (many) => {
    known = many ? await view.get(view.path`groups` + "?limit=500").catch(() => known) : { groups: [] };
    tellDead(view, hints, dead, known);
  };

  const catchUp = () => {
    catching ??= view.run(async () => {
      points = (await view.get(view.path`series`)).points;
      draw();
    }).finally(() => {
      catching = null;
    });
  };
  const draw = () => Object.values(charts).forEach((it) => it.show(points));

  view.watch((outbox, frame) => {
    list(cards, frame.outboxes.map((it) => ({ ...it, here: it.name === outbox.name, others: frame.outboxes.length > 1 })), (it) => it.name, card(view));
    if (!outbox.dead !== !dead) learnDead(outbox.dead);
    dead = outbox.dead;
    tellDead(view, hints, dead, known);
    list(destinations, outbox.destinations, (it) => it.name, destination(view));
    const at = Date.parse(frame.at);
    if (!points.length || at - points.at(-1).at > MISSED) return catchUp();
    if (!outbox.connected || at <= points.at(-1).at) return;
    points.push({ ...outbox, ...outbox.latency, at });
    points = points.slice(-KEPT);
    draw();
  });
  catchUp();
  view.every(5000, async () => tellHealth(health, await view.get("/healthz")));
  view.every(10_000, () => learnDead(dead));
}

function tellHealth(node, told) {
  const wrong = told.checks.filter((it) => it.status !== "ok");
  const sign = JSON.stringify(wrong);
  if (node.sign === sign) return;
  node.sign = sign;
  if (!wrong.length) return replace(node, h("span.well", {}, icon("good"), "All checks pass"));
  const rows = wrong.map((it) => h("li", {}, h("strong", {}, `${it.outbox}: ${it.check}`), " ", it.value, " ", h("span.dim", {}, `(${it.threshold})`), h("p.dim", {}, it.remedy)));
  replace(node, h("details.ill", {}, h("summary", {}, icon("bad"), `${plural(wrong.length, "check")} ${wrong.length === 1 ? "needs" : "need"} a look`), h("ul", {}, rows)));
}

// How an outbox stands; with several, a way to it.
const card = (view) => (outbox) => {
  const more = outbox.at_least ? "+" : "";
  const numbers = [
    ["in", rate(outbox.rate_in), "/s"],
    ["out", rate(outbox.rate_out), "/s"],
    ["lag", duration(outbox.lag_seconds)],
    ["p95 latency", duration(outbox.latency.p95)],
    ["backlog", count(outbox.pending + outbox.processing) + more, null, link(outbox.name, "events", null, { status: "pending,processing" })],
    ["dead", count(outbox.dead), null, link(outbox.name, "dead")],
  ];
  const name = outbox.others && h("h2.name", {}, h("a", { href: `#/${encodeURIComponent(outbox.name)}` }, outbox.name), " ", !outbox.connected && pill("bad", "unreachable"), outbox.paused && pill("doubtful", "paused"));
  return h("article.card.outbox", { "data-here": outbox.here && outbox.others, "data-lost": !outbox.connected }, name,
    h("dl.numbers", {}, numbers.map(([label, value, unit, href]) =>
      h("div", { "data-bad": label === "dead" && outbox.dead > 0 }, h("dt", {}, label), h("dd", {}, href ? h("a", { href }, value) : value, unit && h("small", {}, unit))))));
};

// What most of the dead have in common, and the way to them. What somebody discarded needs nobody any more.
function tellDead(view, node, dead, known) {
  const wrong = known.groups.filter((it) => it.reason !== "discarded");
  const discarded = known.groups.filter((it) => it.reason === "discarded").reduce((sum, it) => sum + it.count, 0);
  const left = dead - discarded;
  const [most] = wrong;
  list(node, most && left > 0 ? [{ left, error: most.error, kinds: wrong.length }] : [], () => "dead", (it) =>
    h("a.hint", { href: view.to("dead") }, icon("dead"),
      h("span.grow", {}, h("strong", {}, `${plural(it.left, "event")} ${it.left === 1 ? "is" : "are"} dead.`), it.error && [it.kinds > 1 ? " Most often: " : " Because: ", h("q", {}, it.error)]),
      h("span.go", {}, view.may ? "See why, and redeliver" : "See why", " →")));
}

const destination = (view) => (it) =>
  h("article.card.destination", {},
    h("div.row.spread", {}, h("h3", {}, h("a", { href: view.to("destinations") }, it.name)), circuit(it)),
    it.down_because && h("p.failure", {}, it.down_because),
    facts([["out", `${rate(it.rate_out)}/s`], ["in flight", count(it.in_flight)], ["p95", duration(it.latency.p95)], ["delivered", count(it.delivered)], ["failed", count(it.failed + it.rejected)]]));

// The state of a circuit in words that need no explanation.
export function circuit(it) {
  const words = { closed: ["good", "delivering"], ramping: ["doubtful", "coming back"], unknown: ["dim", "no relay here"] };
  if (it.circuit !== "open") return pill(...words[it.circuit]);
  const since = (it.down_seconds ?? 0) < 1 ? "" : ` for ${duration(Math.floor(it.down_seconds))}`;
  return pill("bad", `unavailable${since}`);
}
