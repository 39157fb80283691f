// What befell one event, and what does it say?

import { post } from "./api.js";
import { WHY, ask, toast } from "./dialog.js";
import { facts, h, mono, pill, replace, when } from "./dom.js";
import { duration } from "./format.js";
import { payload } from "./payload.js";
import { redeliverOne } from "./redeliver.js";

const ENDINGS = { delivered: "good", failed: "bad", rejected: "bad", unavailable: "doubtful" };

export function show(view) {
  const title = h("h1.topic");
  const about = h("div.row");
  const buttons = h("div.row");
  const fields = h("div");
  const story = h("ol.timeline");
  const acts = h("div");
  const content = h("div");
  replace(view.root,
    h("p.crumbs", {}, h("a", { href: view.to("events") }, "Events"), " / ", mono(view.id)),
    h("div.row.spread", {}, title, buttons), about,
    h("div.columns", {},
      h("section", {}, h("h2", {}, "What befell it"), story, acts),
      h("section", {}, h("h2", {}, "Payload"), content, h("h2", {}, "Fields"), h("div.card", {}, fields))));
  let sign = "";

  async function load() {
    const told = await view.get(view.path`events/${view.id}`);
    const now = JSON.stringify(told);
    if (now === sign) return;
    sign = now;
    const { event } = told;
    replace(title, event.topic);
    replace(about, pill(event.status), event.dead_reason && pill("bad", event.dead_reason), h("span.dim", {}, "to ", told.destination ?? "nowhere"));
    replace(story, timeline(told));
    replace(acts, told.audit.length > 0 && [h("h2", {}, "What operators did"), h("ul.acts", {}, told.audit.map(act))]);
    replace(fields, facts(named(event, view)));
    replace(buttons, view.may && actions(event));
  }

  function actions(event) {
    const settled = ["dead", "delivered"].includes(event.status);
    const gone = event.dead_reason === "discarded";
    return [
      settled && h("button.main", { onclick: async () => (await redeliverOne(view, event)) && view.run(load) }, "Redeliver…"),
      event.status !== "delivered" && !gone && h("button.danger", { onclick: () => discard(event) }, "Discard…"),
    ];
  }

  async function discard(event) {
    const done = await ask({
      title: "Discard this event?", action: "Discard", danger: true, fields: [WHY],
      body: h("p", {}, "It is given up for good: it stays here to be seen, and is not delivered any more."),
      act: ({ why }) => post(view.path`discard`, { ids: [event.id], why }),
    });
    if (!done) return;
    toast(done.ids.length ? "It is discarded." : "It could not be discarded: it is in delivery, or already over.");
    view.run(load);
  }

  view.every(2000, load);
  if (view.me.role === "viewer-no-payload") {
    replace(content, h("p.dim.card", {}, "Your role does not allow you to read payloads."));
  } else {
    view.run(async () => {
      const told = await view.get(view.path`events/${view.id}/content`);
      const headers = Object.entries(told.headers);
      replace(content, h("div.card", {}, payload(told)), headers.length > 0 && [h("h2", {}, "Headers"), h("div.card", {}, facts(headers.map(([name, value]) => [name, mono(value)])))]);
    });
  }
}

const DEEDS = { redeliver: "Redelivered", discard: "Discarded" };

// From its enqueue to now, with each attempt and what operators did in between, as it came.
function timeline({ event, attempts, audit, destination }) {
  const step = (kind, title, at, ...rest) => h("li", { "data-kind": kind }, h("div.row.spread", {}, h("strong", {}, title), h("span.dim", {}, at && when(at))), rest);
  const each = attempts.map((it) => [it.ended_at ?? it.claimed_at,
    step(ENDINGS[it.ending] ?? "doubtful", `Attempt ${it.number}: ${it.ending}`, it.ended_at ?? it.claimed_at,
      it.error && h("p.failure", {}, it.error),
      h("p.dim", {}, [it.destination && `to ${it.destination}`, it.took_seconds != null && `took ${duration(it.took_seconds)}`, it.relay && `by ${it.relay_name ?? it.relay}`, !it.relay && it.ending === "delivered" && `to ${destination ?? "nowhere"} by today's routes; of a first attempt that succeeds, no more is kept`].filter(Boolean).join(" · ")))]);
  const deeds = audit.map((it) => [it.at, step("doubtful", `${DEEDS[it.act] ?? it.act} by ${it.actor}`, it.at)]);
  // What has no time comes first.
  const between = [...each, ...deeds].map(([at, node], place) => [at ? Date.parse(at) : place, node]).sort(([a], [b]) => a - b);
  const last = {
    pending: () => step("now", "Waits for its next attempt", event.next_attempt_at),
    processing: () => step("now", "In delivery", null, event.lease_until && h("p.dim", {}, "lease ends ", when(event.lease_until))),
    delivered: () => step("good", "Delivered", event.delivered_at),
    dead: () => step("bad", `Dead: ${event.dead_reason}`, event.dead_at, !attempts.length && event.last_error && h("p.failure", {}, event.last_error)),
  };
  return [step("dim", "Enqueued", event.created_at), between.map(([, node]) => node), last[event.status]?.()];
}

const act = (it) => h("li", {}, h("strong", {}, it.act), " by ", it.actor, ", ", when(it.at), h("p.dim", {}, it.why));

const named = (event, view) => [
  ["Id", mono(event.id)],
  ["Aggregate", (event.aggregate_type || event.aggregate_id) && h("a", { href: view.to("events", null, { aggregate_type: event.aggregate_type, aggregate_id: event.aggregate_id }) }, [event.aggregate_type, event.aggregate_id].filter(Boolean).join(" "))],
  ["Event type", event.event_type],
  ["Namespace", event.namespace],
  ["Tenant", event.tenant_id && h("a", { href: view.to("events", null, { tenant: event.tenant_id }) }, event.tenant_id)],
  ["Ordering key", event.ordering_key && mono(event.ordering_key)],
  ["Dedupe key", event.dedupe_key && mono(event.dedupe_key)],
  ["Content type", event.content_type],
  ["Trace", event.traceparent && mono(event.traceparent)],
  ["Attempts", event.attempts],
  ["Sequence", event.sequence],
  ["Changed", when(event.updated_at)],
];
