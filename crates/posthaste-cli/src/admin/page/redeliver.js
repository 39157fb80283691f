// Redelivery as people do it: see what it would touch, say why and how fast, confirm, and watch it.

import { post } from "./api.js";
import { WHY, ask, toast } from "./dialog.js";
import { h, icon, list, pill, when } from "./dom.js";
import { count, plural } from "./format.js";

const RATE = { name: "rate", label: "At most this many a second", type: "number", min: 1, max: 1_000_000, value: 100 };

// What is to be redelivered by one filter.
export const redeliver = (view, filter) => redeliverAll(view, [filter]);

// By several filters: a job for each.
export async function redeliverAll(view, filters) {
  // Only the status: that is all there is, which has to be meant so.
  const everything = filters.some((it) => Object.keys(it).every((name) => name === "status"));
  const asked = filters.map((filter) => ({ filter, all: everything }));
  let previews = [];
  await view.run(async () => {
    previews = await Promise.all(asked.map((it) => post(view.path`preview`, it)));
  });
  if (!previews.length) return;
  const found = previews.reduce((sum, it) => sum + it.found, 0);
  if (!found) return ask({ title: "Nothing to redeliver", body: h("p", {}, "No event matches any more.") });
  const done = await ask({
    title: `Redeliver ${plural(found, "event")}?`, action: `Redeliver ${plural(found, "event")}`,
    body: [everything && h("p.failure", {}, "Nothing narrows this down: it is every event of this status."), preview(previews)],
    fields: [WHY, RATE],
    act: async ({ why, rate }) => {
      for (const it of asked) await post(view.path`redeliver`, { ...it, why, rate: rate ? Number(rate) : null });
    },
  });
  if (!done) return;
  toast("The redelivery is under way.");
  location.assign(view.to("dead"));
  return done;
}

export function redeliverOne(view, event) {
  return ask({
    title: "Redeliver this event?", action: "Redeliver", fields: [WHY],
    body: h("p", {}, `${event.topic} keeps its id, so that consumers can tell that they have seen it.`),
    act: async ({ why }) => {
      const done = await post(view.path`redeliver`, { ids: [event.id], why });
      toast(done.ids.length ? "It is on its way again." : "It could not be redelivered: its state has changed.");
    },
  });
}

function preview(previews) {
  const destinations = new Map();
  for (const it of previews) for (const [name, n] of Object.entries(it.destinations)) destinations.set(name, (destinations.get(name) ?? 0) + n);
  const sample = previews.flatMap((it) => it.sample).slice(0, 5);
  return h("div.preview", {},
    h("p", {}, "To ", [...destinations.keys()].map((name) => [h("strong", {}, name), " "]), h("span.dim", {}, "judging by the oldest of them:")),
    h("ul", {}, sample.map((it) => h("li", {}, h("span.topic", {}, it.topic), " ", h("span.dim", {}, when(it.created_at))))));
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

  const KINDS = { running: "processing", paused: "doubtful", done: "good", cancelled: "dim" };

  function job(it) {
    const live = it.state === "running" || it.state === "paused";
    const about = Object.entries(it.filter).map(([name, value]) => `${name} ${value.length > 40 ? `${value.slice(0, 12)}…` : value}`).join(", ");
    return h("article.card.job", { "data-state": it.state },
      h("div.row.spread", {}, h("div.row", {}, pill(KINDS[it.state], it.state), h("strong", {}, `${count(it.redelivered)} of ${count(it.total)}`), it.rate && h("span.dim", {}, `at most ${count(it.rate)}/s`)),
        view.may && live && h("div.row", {},
          it.state === "running" ? h("button.small", { onclick: () => set(it, "paused") }, icon("pause"), "Pause") : h("button.small", { onclick: () => set(it, "running") }, icon("play"), "Resume"),
          h("button.small.danger", { onclick: () => set(it, "cancelled") }, "Cancel"))),
      h("progress", { max: Math.max(it.total, 1), value: it.state === "done" ? Math.max(it.total, 1) : it.redelivered, "aria-label": "Progress" }),
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
