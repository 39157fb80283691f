// Where do events go, and are they taken? Pause and resume, with a reason.

import { post } from "./api.js";
import { WHY, ask, toast } from "./dialog.js";
import { empty, facts, h, icon, list, mono, pill, replace, table, when } from "./dom.js";
import { count, duration, rate } from "./format.js";
import { circuit } from "./overview.js";

export function show(view) {
  const whole = h("div");
  const cards = h("div.stack");
  const nothing = h("div");
  const routes = h("tbody");
  const settings = h("div.card");
  replace(view.root, h("div.row.spread", {}, h("h1", {}, "Destinations"), whole), cards, nothing,
    h("h2", {}, "Which topics go where"), table(["Topic", "Namespace", "Tenant", "Aggregate", "Destination"], routes),
    h("h2", {}, "How it is relayed"), settings);

  async function load() {
    const [told, outbox] = await Promise.all([view.get(view.path`destinations`), view.get(view.path``.slice(0, -1))]);
    list(cards, told.destinations, (it) => it.name, card);
    replace(nothing, !told.destinations.length && empty("No destination", "This outbox is looked after, but not relayed here."));
    const paused = outbox.pauses.find((it) => it.destination == null);
    list(whole, [{ paused }], () => "whole", () => h("div.row", {}, paused && pause(paused), button(null, paused)));
    list(routes, outbox.routes, (it) => JSON.stringify(it), (it) =>
      h("tr", {}, h("td.topic", { "data-label": "Topic" }, it.topic), h("td", { "data-label": "Namespace" }, it.namespace ?? "any"), h("td", { "data-label": "Tenant" }, it.tenant ?? "any"),
        h("td", { "data-label": "Aggregate" }, it.aggregate_type ?? "any"), h("td", { "data-label": "Destination" }, h("strong", {}, it.destination))));
    list(settings, [outbox.settings], () => "settings", (it) => facts([
      ["Delivers", it.deliver ? "yes" : "no"], ["Mode", it.mode], ["Order", it.ordering === "key" ? "by key" : "none"],
      ["Attempts at most", count(it.max_attempts)], ["Lease", duration(it.lease_seconds)], ["Patience per delivery", duration(it.dispatch_timeout_seconds)],
      ["Batch", count(it.batch_size)], ["In flight at most", count(it.in_flight)],
      ["Delivered are kept", it.clean ? duration(it.retention_seconds) : "for ever"], ["Dead are kept", it.clean && it.dead_retention_seconds != null ? duration(it.dead_retention_seconds) : "for ever"],
      ["Database", mono(outbox.address)],
    ]));
  }

  function card(it) {
    return h("article.card.destination", {},
      h("div.row.spread", {}, h("div.row", {}, h("h3", {}, it.name), circuit(it), it.paused && pill("doubtful", "paused")), !(it.paused && it.paused.destination == null) && button(it.name, it.paused)),
      it.down_because && h("p.failure", {}, it.down_because, it.retry_in_seconds != null && `, tried again in ${duration(it.retry_in_seconds)}`),
      it.paused && pause(it.paused),
      facts([["out", `${rate(it.rate_out)}/s`], ["in flight", count(it.in_flight)], ["p50", duration(it.latency.p50)], ["p95", duration(it.latency.p95)], ["p99", duration(it.latency.p99)],
        ["delivered", count(it.delivered)], ["failed", count(it.failed + it.rejected)], ["while unavailable", count(it.unavailable)]]),
      it.topics.length > 0 && h("p.row.dim", {}, "Lately: ", it.topics.slice(0, 12).map((topic) => h("span.topic", {}, topic))));
  }

  const pause = (it) => h("p.dim", {}, it.destination == null ? "The outbox is paused by " : "Paused by ", it.actor, " ", when(it.at), ": ", it.why);

  function button(destination, paused) {
    if (!view.may) return null;
    const what = destination ?? "the whole outbox";
    return h("button", { onclick: () => set(destination, what, !paused) }, icon(paused ? "play" : "pause"), paused ? `Resume ${what}` : `Pause ${what}`);
  }

  async function set(destination, what, wanted) {
    const done = await ask({
      title: `${wanted ? "Pause" : "Resume"} ${what}?`, action: wanted ? "Pause" : "Resume", fields: [WHY],
      body: h("p", {}, wanted ? "Nothing is lost: events wait in the outbox until it is resumed." : "What waited is delivered now, the oldest first."),
      act: ({ why }) => post(wanted ? view.path`pause` : view.path`resume`, { destination, why }),
    });
    if (!done) return;
    toast(wanted ? "It is paused." : "It goes on.");
    view.run(load);
  }

  view.every(1500, load);
}
