// Who did what, when and why?

import { query } from "./api.js";
import { empty, h, list, replace, table, when } from "./dom.js";

export function show(view) {
  const rows = h("tbody");
  const nothing = h("div");
  replace(view.root, h("h1", {}, "Audit"), table(["When", "Who", "What", "Event", "Why"], rows), nothing);
  view.every(3000, async () => {
    const told = await view.get(view.path`audit` + query({ limit: 200, event: view.query.event }));
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
  });
}
