// Redelivery as people do it: see what it would touch, say why and how fast, confirm, and watch it.

import { newId, post } from "./api.js";
import { WHY, ask, toast } from "./dialog.js";
import { h, icon, list, pill, when } from "./dom.js";
import { count, plural } from "./format.js";

// A delivered event is history: what is sent again is another one.
const COPIES = "Delivered events are sent again as new events, with ids of their own: consumers handle them again. Their header posthaste-redelivery-of names the event that each is a copy of.";

// What a colleague decided is not undone unawares.
const GIVEN_UP = "Somebody gave some of these up: they were discarded, and are delivered all the same.";

const RATE = { name: "rate", label: "At most this many a second", type: "number", min: 1, max: 1_000_000, value: 100 };

// What is to be redelivered by one filter.
export const redeliver = (view, filter) => redeliverAll(view, [filter]);

// By several filters: a job for each.
export async function redeliverAll(view, filters) {
  // Only the status: that is all there is, which has to be meant so.
  const everything = filters.some((it) => Object.keys(it).every((name) => name === "status"));
  const asked = filters.map((filter) => ({ filter, all: everything }));
  // Who confirms again, because no answer came, begins nothing twice: the id is that of this question.
  const ids = asked.map(() => newId());
  let previews = [];
  await view.run(async () => {
    previews = await Promise.all(asked.map((it) => post(view.path`preview`, it)));
  });
  if (!previews.length) return;
  const found = previews.reduce((sum, it) => sum + it.found, 0);
  const more = previews.some((it) => it.at_least);
  if (!found && !more) return ask({ title: "Nothing to redeliver", body: h("p", {}, "No event matches any more.") });
  const many = more ? "more events than could be counted" : plural(found, "event");
  const copies = filters.some((it) => (it.status ?? "").includes("delivered"));
  const givenUp = filters.some((it) => it.reason === "discarded");
  const begun = new Set();
  const done = await ask({
    title: `Redeliver ${many}?`, action: more ? "Redeliver them" : `Redeliver ${many}`,
    body: [everything && h("p.failure", {}, "Nothing narrows this down: it is every event of this status."), copies && h("p.failure", {}, COPIES), givenUp && h("p.failure", {}, GIVEN_UP), preview(previews),
      asked.length > 1 && h("p.dim", {}, `These are ${asked.length} redeliveries, which share the rate: each gets at least one a second.`)],
    fields: [WHY, RATE],
    act: async ({ why, rate }) => {
      const share = rate ? Math.max(1, Math.floor(Number(rate) / asked.length)) : null;
      for (const [place, it] of asked.entries()) {
        if (begun.has(it)) continue;
        await post(view.path`redeliver`, { ...it, why, rate: share, job: ids[place] });
        begun.add(it);
      }
    },
  });
  if (begun.size && !done) toast(`${plural(begun.size, "redelivery", "redeliveries")} of ${asked.length} began, see below.`);
  if (!done) return;
  toast("The redelivery is under way.");
  location.assign(view.to("dead"));
  return done;
}

export function redeliverOne(view, event) {
  const copied = event.status === "delivered";
  const job = newId();
  return ask({
    title: copied ? "Send this event again?" : "Redeliver this event?", action: copied ? "Send again" : "Redeliver", fields: [WHY],
    body: copied ? h("p.failure", {}, COPIES) : h("p", {}, `${event.topic} keeps its id, so that consumers can tell that they have seen it.`),
    act: async ({ why }) => {
      if (copied) return sendAgain(view, event.id, job, why);
      const done = await post(view.path`redeliver`, { ids: [event.id], why });
      toast(done.ids.length ? "It is on its way again." : "It could not be redelivered: its state has changed.");
    },
  });
}

// As a job, so that a second try makes no second copy.
async function sendAgain(view, event, job, why) {
  await post(view.path`redeliver`, { ids: [event], why, job });
  for (let tries = 0; tries < 40; tries++) {
    const told = await view.get(view.path`jobs/${job}`);
    if (told.state === "done") break;
    await new Promise((done) => setTimeout(done, 250));
  }
  const { audit } = await view.get(view.path`events/${event}`);
  const copy = audit.map((it) => it.why).find((it) => it.includes(job))?.match(/\(as ([0-9a-f-]{36})\)$/)?.[1];
  toast(copy ? ["It is sent again as ", h("a", { href: view.to("events", copy) }, "a new event"), "."] : "It will be sent again as a new event.");
}

const aggregate = (it) => [it.aggregate_type, it.aggregate_id].filter(Boolean).join(" ");

function preview(previews) {
  const destinations = new Map();
  for (const it of previews) for (const [name, n] of Object.entries(it.destinations)) destinations.set(name, (destinations.get(name) ?? 0) + n);
  const sample = previews.flatMap((it) => it.sample).slice(0, 5);
  if (!sample.length) return h("div.preview", {}, h("p.dim", {}, "None of them was found in time to show it here."));
  return h("div.preview", {},
    h("p", {}, "To ", [...destinations.keys()].map((name, place) => [place > 0 && ", ", h("strong", {}, name)]), h("span.dim", {}, ", judging by the oldest of them:")),
    h("ul", {}, sample.map((it) => h("li.row", {}, h("span.topic", {}, it.topic), aggregate(it) && h("code", {}, aggregate(it)), h("span.dim", {}, when(it.created_at))))));
}

// The redeliveries under way, and those that are over.
export function jobs(view) {
  const rows = h("div.stack");
  const node = h("section", { hidden: true }, h("h2", {}, "Redeliveries"), rows);
  const load = async () => {
    const told = await view.get(view.path`jobs` + "?limit=20");
    node.hidden = !told.jobs.length;
    list(rows, told.jobs, (it) => it.id, job);
  };

  // What a job is about, for people: a fingerprint says nothing to them but that it is one.
  function words([name, value]) {
    if (name === "status") return value === "dead" ? "" : value.replace(",", " or ");
    if (name === "reason") return value;
    if (name === "fingerprint") return `errors of kind ${value.slice(0, 8) || "none"}`;
    if (name === "id") return value.includes(",") ? plural(value.split(",").length, "named event") : "one named event";
    return `${name.replace("_", " ")} ${value.length > 40 ? `${value.slice(0, 40)}…` : value}`;
  }

  const KINDS = { running: "processing", paused: "doubtful", done: "good", cancelled: "dim" };

  function job(it) {
    const live = it.state === "running" || it.state === "paused";
    const about = Object.entries(it.filter).map(words).filter(Boolean).join(", ");
    return h("article.card.job", { "data-state": it.state },
      h("div.row.spread", {}, h("div.row", {}, pill(KINDS[it.state], it.state), h("strong", {}, it.total < it.redelivered || !it.total ? `${count(it.redelivered)} redelivered` : `${count(it.redelivered)} of ${count(it.total)}`), it.rate && h("span.dim", {}, `at most ${count(it.rate)}/s`)),
        view.may && live && h("div.row", {},
          it.state === "running" ? h("button.small", { onclick: () => set(it, "paused") }, icon("pause"), "Pause") : h("button.small", { onclick: () => set(it, "running") }, icon("play"), "Resume"),
          h("button.small.danger", { onclick: () => set(it, "cancelled") }, "Cancel"))),
      // How much there is to do may not be known: then it has no value.
      h("progress", { max: Math.max(it.total, 1), value: it.state === "done" ? Math.max(it.total, 1) : it.total ? Math.min(it.redelivered, it.total) : null, "aria-label": "Progress" }),
      h("p.dim", {}, about, about && " · ", it.actor, ", ", when(it.created_at), ": ", it.why));
  }

  async function set(it, state) {
    const words = { paused: "Pause", running: "Resume", cancelled: "Cancel" };
    await ask({
      title: `${words[state]} this redelivery?`, action: words[state], danger: state === "cancelled", fields: [WHY],
      body: state === "cancelled" && h("p", {}, "What is redelivered already stays so."),
      act: ({ why }) => post(view.path`jobs/${it.id}`, { state, why }),
    });
    view.run(load);
  }

  view.every(1000, load);
  return node;
}
