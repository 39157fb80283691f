// Who did what, when and why?

import { query } from "./api.js";
import { empty, h, list, replace, table, when } from "./dom.js";

export function show(view) {
  const rows = h("tbody");
  const nothing = h("div");
  const pages = h("p.pages");
  let words = view.query;
  replace(view.root, h("h1", {}, "Audit"), table(["When", "Who", "What", "Event", "Why"], rows), nothing, pages);

  async function load() {
    const asked = words;
    const told = await view.get(view.path`audit` + query({ limit: 100, event: asked.event, cursor: asked.cursor }));
    // Somebody has leafed on meanwhile.
    if (asked !== words) return;
    // Entries have no name of their own: the same twice are told by their places.
    const seen = new Map();
    const named = told.entries.map((it) => {
      const name = `${it.at} ${it.act} ${it.event_id} ${it.actor}`;
      seen.set(name, (seen.get(name) ?? 0) + 1);
      return { ...it, name: `${name} ${seen.get(name)}` };
    });
    list(rows, named, (it) => it.name, (it) =>
      h("tr", {},
        h("td.number", { "data-label": "When" }, when(it.at)),
        h("td", { "data-label": "Who" }, it.actor),
        h("td", { "data-label": "What" }, h("strong", {}, it.act)),
        h("td.topic", { "data-label": "Event" }, it.event_id ? h("a", { href: view.to("events", it.event_id) }, it.topic || it.event_id) : it.topic || "–"),
        h("td", { "data-label": "Why" }, it.why)));
    if (told.entries.length) replace(nothing);
    else if (!nothing.childElementCount) replace(nothing, empty("Nobody has done anything yet", "Redeliveries, discards, pauses and resumes are written down here."));
    const later = words.cursor && h("a.button", { href: view.to("audit", null, { event: words.event }) }, "← Latest");
    const next = told.next && h("a.button", { href: view.to("audit", null, { ...words, cursor: told.next }) }, "Earlier →");
    const sign = [words.cursor, told.next].join();
    if (pages.sign !== sign) replace(pages, later, next);
    pages.sign = sign;
  }

  function turn(asked) {
    words = asked;
    view.run(load);
  }

  turn(view.query);
  // A page that somebody leafed to stays as it is.
  view.every(3000, async () => words.cursor || load());
  return { turn };
}
