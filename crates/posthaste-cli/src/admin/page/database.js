// How does the database cope? Sizes, what holds back vacuum, and what to do about it.

import { facts, h, list, mono, pill, replace, when } from "./dom.js";
import { bytes, count, duration } from "./format.js";

export function show(view) {
  const about = h("div.card");
  const findings = h("div.stack.findings");
  replace(view.root, h("h1", {}, "Database"), about, h("h2", {}, "Checks"), findings);
  view.every(5000, async () => {
    const told = await view.get(view.path`database`);
    list(about, [told], () => "about", health);
    list(findings, told.findings, (it) => it.check, finding);
  });
}

function health(it) {
  const holder = it.oldest_transaction;
  const share = (part, whole) => (whole ? ` (${Math.round((100 * part) / whole)} %)` : "");
  return facts([
    ["Server", it.server],
    ["Address", mono(it.address)],
    ["Table", it.table_bytes != null && bytes(it.table_bytes)],
    ["Indexes", it.index_bytes != null && bytes(it.index_bytes)],
    ["File", it.file_bytes != null && bytes(it.file_bytes)],
    ["Rows", it.live_rows != null && count(it.live_rows)],
    ["Dead rows", it.dead_rows != null && `${count(it.dead_rows)}${share(it.dead_rows, it.live_rows + it.dead_rows)}`],
    ["Free pages", it.free_pages != null && `${count(it.free_pages)} of ${count(it.pages)}${share(it.free_pages, it.pages)}`],
    ["Vacuumed", it.vacuumed_at && when(it.vacuumed_at)],
    ["Analyzed", it.analyzed_at && when(it.analyzed_at)],
    ["Oldest due event", it.oldest_pending_seconds != null && (it.oldest_pending_seconds ? `due for ${duration(it.oldest_pending_seconds)}` : "none is due")],
    ["Connections", it.connections != null && `${count(it.connections)} of ${count(it.connection_limit)}`],
    ["Oldest transaction", holder && `${duration(holder.age_seconds)}, ${holder.state}, pid ${holder.pid}${holder.application ? `, ${holder.application}` : ""}`],
  ].map(([name, value]) => [name, value === false ? null : value]));
}

const finding = (it) =>
  h("article.card.finding", { "data-kind": it.grade },
    h("div.row.spread", {}, h("strong", {}, it.check), pill(it.grade)),
    h("p", {}, it.found), it.grade !== "good" && it.remedy && h("p.dim", {}, it.remedy));
