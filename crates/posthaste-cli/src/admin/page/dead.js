// What is dead, and why? Groups of the same error, to be brought back together.

import { query } from "./api.js";
import { empty, h, list, pill, replace, say, when } from "./dom.js";
import { count, plural } from "./format.js";
import { jobs, redeliverAll } from "./redeliver.js";

export function show(view) {
  const chosen = new Map();
  const topic = h("input", { type: "search", name: "topic", placeholder: "Topic, such as shop.*", "aria-label": "Topic", value: view.query.topic ?? "" });
  const error = h("input", { name: "error", placeholder: "Error contains", "aria-label": "Error contains", value: view.query.error ?? "" });
  const form = h("form.filters.row", { role: "search", onsubmit: apply, onchange: apply }, topic, error, h("input", { type: "submit", hidden: true }));
  const all = h("input", { type: "checkbox", "aria-label": "Select all groups", onchange: chooseAll });
  const told = h("span");
  const button = view.may && h("button.main", { onclick: go, disabled: true, title: "Select at least one group first" }, "Preview redelivery…");
  const groups = h("div.stack");
  const nothing = h("div");
  const note = h("p.dim", { hidden: true }, "Counted among the latest 100,000 dead events: there are more. A redelivery takes all that match.");
  const bar = h("div.row.spread.choose", { hidden: true }, h("label.row", {}, view.may && all, told), button);
  replace(view.root, h("h1", {}, "Dead letters"), form, bar, note, groups, nothing, jobs(view));
  let words = view.query;
  let known = [];

  function apply(event) {
    event.preventDefault();
    location.assign(view.to("dead", null, { topic: topic.value.trim(), error: error.value.trim() }));
  }

  function turn(asked) {
    words = asked;
    chosen.clear();
    view.run(load);
  }

  const key = (it) => `${it.fingerprint} ${it.reason}`;
  // What somebody gave up stays so, unless it is picked by hand.
  const isGivenUp = (it) => it.reason === "discarded";
  // The oldest and newest of a group change all the time; which it is does not.
  const filter = (it) => ({ ...words, status: "dead", fingerprint: it.fingerprint, reason: it.reason });

  async function load() {
    const asked = words;
    const found = await view.get(view.path`groups` + query(asked));
    if (asked !== words) return;
    known = found.groups;
    for (const name of chosen.keys()) if (!known.some((it) => key(it) === name)) chosen.delete(name);
    list(groups, known, key, group);
    if (known.length) replace(nothing);
    else if (!nothing.childElementCount) replace(nothing, Object.keys(words).length ? empty("Nothing matches", "No dead event fits these filters.") : empty("Nothing is dead", "What cannot be delivered comes here, by the kind of its error."));
    bar.hidden = !known.length;
    note.hidden = !found.at_least;
    sum();
  }

  function sum() {
    const picked = known.filter((it) => chosen.has(key(it)));
    const left = known.filter((it) => !isGivenUp(it));
    const total = (of) => of.reduce((n, it) => n + it.count, 0);
    const givenUp = total(known.filter(isGivenUp));
    say(told, picked.length ? `${plural(total(picked), "event")} in ${plural(picked.length, "group")} selected` : `${plural(total(left), "dead event")} in ${plural(left.length, "group")}${givenUp ? `, ${count(givenUp)} discarded` : ""}`);
    if (button) {
      button.disabled = !picked.length;
      button.title = picked.length ? "" : "Select at least one group first";
    }
    all.disabled = !left.length && !picked.length;
    all.checked = left.length > 0 && left.every((it) => chosen.has(key(it)));
    all.indeterminate = picked.length > 0 && !all.checked;
  }

  function choose(it, box, node) {
    if (box.checked) chosen.set(key(it), it);
    else chosen.delete(key(it));
    node.toggleAttribute("data-chosen", box.checked);
    sum();
  }

  function chooseAll() {
    const wanted = all.checked && known.some((it) => !isGivenUp(it));
    const those = wanted ? ".group:not([data-reason=discarded]) " : "";
    for (const box of groups.querySelectorAll(`${those}input[type=checkbox]`)) {
      if (box.checked !== wanted) box.click();
    }
  }

  async function go() {
    const picked = known.filter((it) => chosen.has(key(it)));
    if (await redeliverAll(view, picked.map(filter))) {
      chosen.clear();
      for (const box of groups.querySelectorAll("input[type=checkbox]:checked")) box.click();
    }
  }

  function group(it) {
    const box = h("input", { type: "checkbox", "aria-label": `Select ${it.error ?? it.reason}` });
    const node = h("article.card.group", { "data-chosen": chosen.has(key(it)), "data-reason": it.reason },
      view.may && box,
      h("div.grow", {},
        h("p.error", {}, it.error ?? h("span.dim", {}, "no error is told")),
        h("p.row.dim", {}, pill("bad", it.reason), it.topics.map((name) => h("span.topic", {}, name))),
        h("p.dim", {}, "first ", when(it.oldest), " · last ", when(it.newest), " · ",
          h("a", { href: view.to("events", it.sample) }, "an example"), " · ", h("a", { href: view.to("events", null, filter(it)) }, "all of them"))),
      h("b.count", {}, count(it.count)));
    box.checked = chosen.has(key(it));
    box.addEventListener("change", () => choose(it, box, node));
    return node;
  }

  view.every(2500, load);
  return { turn };
}
