// Who works on it, and what waits? Relays with their leases, and ordering keys that are blocked.

import { empty, h, list, mono, pill, replace, table, when } from "./dom.js";
import { count } from "./format.js";

// Another process relays a SQLite file, and holds no lease that would name it.
const NOBODY = "00000000-0000-0000-0000-000000000000";

export function show(view) {
  const relays = h("tbody");
  const none = h("div");
  const keys = h("tbody");
  const keyTable = table(["Key", "First event", "State", "Waiting", "Since", "Error"], keys);
  const free = h("div");
  const keyNote = h("p.dim", { hidden: true }, "Looked for among the latest 5,000 dead events and the next 5,000 that wait: there may be more.");
  replace(view.root, h("h1", {}, "Relays"), table(["Relay", "Host", "State", "Leases", "Oldest lease", "Since"], relays), none,
    h("h2", {}, "Blocked keys"), h("p.dim", {}, "With ordering, an event waits until the one before it with the same key is settled."), keyNote, keyTable, free);

  view.every(2000, async () => {
    const [who, what] = await Promise.all([view.get(view.path`relays`), view.get(view.path`blocked`)]);
    list(relays, who.relays, (it) => it.owner, relay);
    tell(none, who.relays, "No relay", "Nobody has worked on this outbox lately.");
    list(keys, what.keys, (it) => it.key, key);
    keyTable.hidden = !what.keys.length;
    keyNote.hidden = !what.at_least;
    tell(free, what.keys, what.at_least ? "No blocked key was found" : "No key is blocked", what.at_least ? "" : "Everything that is ordered flows.");
  });

  function key(it) {
    return h("tr.link", {},
      h("td", { "data-label": "Key" }, mono(it.key)),
      h("td.topic", { "data-label": "First event" }, h("a", { href: view.to("events", it.head) }, it.topic)),
      h("td", { "data-label": "State" }, pill(it.status, it.reason ?? it.status)),
      h("td.number", { "data-label": "Waiting" }, count(it.waiting)),
      h("td.number", { "data-label": "Since" }, when(it.since)),
      h("td.error", { "data-label": "Error" }, it.error ?? "–"));
  }
}

function tell(node, found, title, text) {
  if (found.length) replace(node);
  else if (!node.childElementCount) replace(node, empty(title, text));
}

function relay(it) {
  return h("tr", {},
    h("td", { "data-label": "Relay" }, h("strong", {}, it.name ?? "without a name"), it.owner !== NOBODY && h("small.dim", {}, it.owner)),
    h("td", { "data-label": "Host" }, h("span", {}, it.host ?? "–", it.pid != null && h("span.dim", {}, ` pid ${it.pid}`))),
    h("td", { "data-label": "State" }, h("span.row", {}, it.alive ? pill("good", "alive") : pill("bad", "gone"), it.leads && pill("dim", "leads"), it.this && pill("dim", "this one"))),
    h("td.number", { "data-label": "Leases" }, count(it.leases)),
    h("td.number", { "data-label": "Oldest lease" }, when(it.oldest_lease)),
    h("td.number", { "data-label": "Since" }, when(it.since)));
}
