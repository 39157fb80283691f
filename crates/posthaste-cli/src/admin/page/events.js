// Which events are there? Search, filters, and pages that stay stable while others come.

import { query } from "./api.js";
import { empty, h, icon, list, mono, pill, replace, table, when } from "./dom.js";
import { count } from "./format.js";
import { redeliver } from "./redeliver.js";

const STATUSES = ["pending", "processing", "delivered", "dead"];
const FIELDS = [
  { name: "topic", label: "Topic", hint: "shop.*" },
  { name: "error", label: "Error contains", hint: "timeout" },
  { name: "id", label: "Id", hint: "ids, with commas" },
  { name: "tenant", label: "Tenant", hint: "a UUID" },
  { name: "namespace", label: "Namespace" },
  { name: "event_type", label: "Event type" },
  { name: "aggregate_type", label: "Aggregate type", hint: "order" },
  { name: "aggregate_id", label: "Aggregate id", hint: "4711" },
  { name: "newer_than", label: "Newer than", hint: "15m" },
  { name: "older_than", label: "Older than", hint: "1h30m" },
];
// What a link may say besides, and is shown to be so.
const SILENT = ["fingerprint", "reason"];

export function show(view) {
  let words = {};
  const inputs = Object.fromEntries(FIELDS.map((it) => [it.name, h("input", { name: it.name, placeholder: it.hint, autocomplete: "off" })]));
  const search = h("input", { type: "search", name: "q", placeholder: "An id, or part of a topic", "aria-label": "Search events", autocomplete: "off" });
  const order = h("select", { name: "order", "aria-label": "Order" }, h("option", { value: "" }, "Newest first"), h("option", { value: "oldest" }, "Oldest first"));
  const statuses = STATUSES.map((status) => h("label.chip", {}, h("input", { type: "checkbox", name: "status", value: status }), status));
  const silent = h("span.row");
  const more = h("details.more", {}, h("summary", {}, "More filters"), h("div.fields", {}, FIELDS.map((it) => h("label.field", {}, it.label, inputs[it.name]))));
  const form = h("form.filters", { onsubmit: apply, onchange: apply, role: "search" },
    h("div.row", {}, h("label.search", {}, icon("search"), search), h("span.row", {}, statuses), order, silent, h("button.small", { type: "button", onclick: () => location.assign(view.to("events")) }, "Clear")), more,
    // Enter in a field sends a form only if it has one.
    h("input", { type: "submit", hidden: true }));
  const rows = h("tbody");
  const nothing = h("div");
  const looking = h("div.notice.looking", { hidden: true, role: "status" });
  const pages = h("p.pages");
  const again = view.may && h("button", { onclick: () => redeliver(view, filter()) }, "Redeliver these…");
  replace(view.root, h("div.row.spread", {}, h("h1", {}, "Events"), again), form,
    h("div.events", {}, table(["Status", "Topic", "Aggregate", "Attempts", "Last error", "Enqueued"], rows)), looking, nothing, pages);

  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(apply, 300);
  });

  function apply(event) {
    event?.preventDefault?.();
    clearTimeout(typing);
    const status = statuses.map((it) => it.firstChild).filter((it) => it.checked).map((it) => it.value).join(",");
    const kept = Object.fromEntries(SILENT.map((name) => [name, words[name]]));
    const given = Object.fromEntries(FIELDS.map((it) => [it.name, inputs[it.name].value.trim()]));
    const wanted = view.to("events", null, { q: search.value.trim(), status, order: order.value, ...given, ...kept });
    if (wanted !== location.hash) location.assign(wanted);
  }

  // What a redelivery takes: where to begin and in which order is no part of it.
  function filter() {
    const { cursor, order: _, ...rest } = words;
    return rest;
  }

  function turn(asked) {
    const { search: now, ...given } = asked;
    words = given;
    if (document.activeElement !== search) search.value = words.q ?? "";
    order.value = words.order ?? "";
    const chosen = (words.status ?? "").split(",");
    for (const it of statuses) it.firstChild.checked = chosen.includes(it.firstChild.value);
    for (const it of FIELDS) if (document.activeElement !== inputs[it.name]) inputs[it.name].value = words[it.name] ?? "";
    if (FIELDS.some((it) => words[it.name])) more.open = true;
    replace(silent, SILENT.filter((name) => words[name] != null).map((name) => pill("dim", `${name} ${words[name].slice(0, 12) || "none"}`)));
    const only = (words.status ?? "").split(",").every((it) => ["dead", "delivered"].includes(it));
    if (again) again.hidden = !only;
    if (now) search.focus();
    view.run(load);
  }

  // What matches may be far: a page looks at the next ten thousand events, and tells where to go on.
  async function found(asked) {
    let page = await view.get(view.path`events` + query({ ...asked, limit: 50 }));
    let looked = 1;
    stopped = null;
    while (!page.events.length && page.next && asked === words && stopped !== asked) {
      tellLooking(asked, page.next, looked++);
      page = await view.get(view.path`events` + query({ ...asked, limit: 50, cursor: page.next }));
    }
    if (asked === words) looking.hidden = true;
    return page;
  }

  let stopped = null;
  function tellLooking(asked, next, looked) {
    const far = when(new Date(Number(next.split("_")[0]) / 1000).toISOString());
    const stop = h("button.small", { type: "button", onclick: () => (stopped = asked) }, "Stop");
    if (looking.hidden) replace(rows), replace(nothing), replace(pages), (rows.listed = null), (pages.sign = null);
    replace(looking, h("strong", {}, "Still looking. "), `Nothing matches among ${count(looked * 10_000)} events or so, up to `, far, ". ", stop);
    looking.hidden = false;
  }

  let busy = false;
  async function load(again = false) {
    // A search that goes on is not begun anew.
    if (again && busy) return;
    const asked = words;
    busy = true;
    const page = await found(asked).finally(() => (busy = false));
    // Somebody has asked for something else meanwhile.
    if (asked !== words) return;
    list(rows, page.events, (it) => it.id, row(view));
    const narrowed = Object.keys(filter()).length > 0;
    if (page.events.length) replace(nothing);
    else if (page.next) replace(nothing, empty("Nothing matches so far", "There are more events to look at: go on below."));
    else if (!nothing.childElementCount) replace(nothing, narrowed ? empty("Nothing matches", "Other filters may find more.") : empty("No events yet", "They appear here as soon as they are committed."));
    const later = words.cursor && h("a.button", { href: view.to("events", null, { ...filter(), order: words.order }) }, words.order === "oldest" ? "← Oldest" : "← Newest");
    const next = page.next && h("a.button", { href: view.to("events", null, { ...words, cursor: page.next }) }, words.order === "oldest" ? "Newer →" : "Older →");
    const sign = [words.cursor, page.next].join();
    if (pages.sign !== sign) replace(pages, later, next);
    pages.sign = sign;
  }

  turn(view.query);
  // A page that somebody leafed to stays as it is.
  view.every(2500, async () => words.cursor || load(true));
  return { turn };
}

export const row = (view) => (it) =>
  h("tr.link", {},
    h("td", { "data-label": "Status" }, pill(it.status)),
    h("td.topic", { "data-label": "Topic" }, h("a", { href: view.to("events", it.id), title: it.id }, it.topic), h("small.dim", {}, it.id)),
    h("td", { "data-label": "Aggregate" }, it.aggregate_type || it.aggregate_id ? mono([it.aggregate_type, it.aggregate_id].filter(Boolean).join(" ")) : h("span.dim", {}, "–")),
    h("td.number", { "data-label": "Attempts" }, it.attempts),
    h("td.error", { "data-label": "Last error" }, it.last_error ?? h("span.dim", {}, "–")),
    h("td.number", { "data-label": "Enqueued" }, when(it.created_at)));
