// The frame around pages: where we are, who we are, whether it is live, and what is wrong.

import { get, link, of } from "./api.js";
import { ask } from "./dialog.js";
import { h, icon, keepTimes, list, replace, say } from "./dom.js";
import { begin, live, pause, watch } from "./live.js";
import * as audit from "./audit.js";
import * as database from "./database.js";
import * as dead from "./dead.js";
import * as destinations from "./destinations.js";
import * as event from "./event.js";
import * as events from "./events.js";
import * as overview from "./overview.js";
import * as relays from "./relays.js";

// In the order of the menu; `key` follows `g`.
const PAGES = {
  overview: { name: "Overview", key: "o", module: overview },
  events: { name: "Events", key: "e", module: events },
  dead: { name: "Dead letters", key: "d", module: dead },
  destinations: { name: "Destinations", key: "t", module: destinations },
  relays: { name: "Relays", key: "r", module: relays },
  database: { name: "Database", key: "b", module: database },
  audit: { name: "Audit", key: "a", module: audit },
};

const [bar, nav, banner, page] = ["bar", "nav", "banner", "page"].map((id) => document.getElementById(id));
const state = h("span");
const liveButton = h("button.live", { onclick: () => pause(!live.paused) }, h("i.dot"), state);
const outboxes = h("select", { "aria-label": "Outbox", onchange: () => go(outboxes.value, at().page) });
// A question that goes on and on may take this part of the time, unless that would be too seldom.
const [SHARE, LONGEST] = [10, 30_000];
let me = null;
let leave = new AbortController();
let here = null;

// An address is #/OUTBOX/PAGE/ID?FILTERS
function at() {
  const [path, words = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [outbox, name = "overview", id] = path.split("/").map(decode);
  return { outbox, page: PAGES[name] ? name : "overview", id, query: Object.fromEntries(new URLSearchParams(words)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const go = (...where) => location.assign(link(...where));

function turn() {
  const now = at();
  const known = live.frame?.outboxes.map((outbox) => outbox.name) ?? [];
  if (!known.includes(now.outbox)) {
    if (!known.length) return;
    location.replace(link(known[0], now.outbox ? now.page : "overview"));
    return;
  }
  outboxes.value = now.outbox;
  for (const anchor of nav.querySelectorAll("a")) {
    anchor.href = link(now.outbox, anchor.dataset.page);
    const current = anchor.dataset.page === now.page;
    if (current) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  showPlace();
  const same = here && here.outbox === now.outbox && here.page === now.page && here.id === now.id;
  if (same && here.shown?.turn) return here.shown.turn(now.query);
  leave.abort();
  leave = new AbortController();
  const module = now.page === "events" && now.id ? event : PAGES[now.page].module;
  const { name } = PAGES[now.page];
  document.title = `${name} · ${now.outbox} · Posthaste`;
  const notice = h("div", { role: "alert" });
  const root = h("div.page");
  replace(page, notice, root);
  page.scrollTop = 0;
  window.scrollTo(0, 0);
  here = { ...now };
  here.shown = module.show({ ...now, ...tools(now.outbox, leave.signal, notice), me, root, may: me.role === "operator" });
  if (document.activeElement === document.body) page.focus({ preventScroll: true });
}

// On a phone the menu is wider than the screen.
function showPlace() {
  const current = nav.querySelector("[aria-current]");
  if (current) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - 40;
}

// What every page gets.
function tools(outbox, signal, notice) {
  const path = of(outbox);
  const fail = (error) => {
    if (error.name === "AbortError" || signal.aborted) return;
    const lost = error.code === "unreachable";
    replace(notice, !lost && h("div.notice", { "data-kind": "bad" }, h("strong", {}, error.message), error.remedy && h("p", {}, error.remedy)));
  };
  const run = async (work) => {
    try {
      await work();
      if (!signal.aborted) replace(notice);
      return true;
    } catch (error) {
      fail(error);
      return false;
    }
  };
  // Again and again while the page is open, looked at, and live. What takes the database long is asked less often.
  const every = (millis, work) => {
    const round = async (first) => {
      if (signal.aborted) return;
      const began = performance.now();
      const answered = (first || (!document.hidden && !live.paused)) && (await run(work));
      const took = answered ? performance.now() - began : 0;
      if (!signal.aborted) setTimeout(round, Math.max(millis, Math.min(SHARE * took, LONGEST)), false);
    };
    round(true);
  };
  return {
    path, signal, run, every,
    get: (where) => get(where, signal),
    to: (name, id, words) => link(outbox, name, id, words),
    watch: (listener) => watch((now) => {
      const found = now.frame.outboxes.find((it) => it.name === outbox);
      if (found) listener(found, now.frame);
    }, signal),
  };
}

function tellState() {
  say(state, live.lost ? "Not connected" : live.paused ? "Paused" : "Live");
  liveButton.dataset.state = live.lost ? "lost" : live.paused ? "paused" : "live";
  liveButton.setAttribute("aria-pressed", String(live.paused));
  liveButton.title = live.paused ? "Go on with live updates (p)" : "Pause live updates (p)";
  const known = live.frame?.outboxes ?? [];
  const down = known.filter((outbox) => !outbox.connected);
  const paused = known.filter((outbox) => outbox.paused);
  const troubles = [
    live.lost && { kind: "bad", title: "The server cannot be reached.", text: "What you see is as it last was. This page tries again by itself." },
    ...down.map((outbox) => ({ kind: "bad", title: `The database of ${outbox.name} does not answer.`, text: "Events are safe in it; nothing is delivered until it is back." })),
    ...paused.map((outbox) => ({ kind: "doubtful", title: `${outbox.name} is paused, or a destination of it.`, outbox: outbox.name })),
  ].filter(Boolean);
  list(banner, troubles, (it) => it.title, (it) =>
    h("div.notice", { "data-kind": it.kind }, icon("bad"), h("strong", {}, it.title), " ", it.text, it.outbox && h("a", { href: link(it.outbox, "destinations") }, "See why")));
}

function frame() {
  const several = live.frame.outboxes.length > 1;
  replace(outboxes, live.frame.outboxes.map((outbox) => h("option", { value: outbox.name }, outbox.name)));
  replace(bar,
    h("a.brand", { href: "#/" }, h("img", { src: "/page/icon.svg", alt: "", width: 26, height: 26 }), "Posthaste"),
    several ? outboxes : h("span.where", {}, live.frame.outboxes[0]?.name),
    h("span.grow"),
    liveButton,
    h("button.quiet", { title: "Light or dark", "aria-label": "Light or dark", onclick: theme }, icon("theme")),
    h("button.quiet.wide", { title: "Keyboard (?)", "aria-label": "Keyboard shortcuts", onclick: keys }, icon("keys")),
    h("span.who", { title: me.role }, me.tokens ? me.name : "this machine", h("small", {}, me.role)),
    me.session && h("form", { method: "post", action: "/logout" }, h("button.quiet", { title: "Sign out", "aria-label": "Sign out" }, icon("out"))));
  replace(nav, Object.entries(PAGES).map(([name, it]) =>
    h("a", { href: "#/", "data-page": name }, icon(name), it.name, name === "dead" && h("b.badge"))));
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
}

function keys() {
  const rows = [["/", "Search events"], ["p", "Pause or go on with live updates"], ["?", "This list"],
    ...Object.values(PAGES).map((it) => [`g ${it.key}`, it.name])];
  ask({ title: "Keyboard", body: h("dl.keys", {}, rows.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))) });
}

let goes = -Infinity;

function press(pressed) {
  const busy = pressed.target.closest?.("input, select, textarea, dialog") || pressed.ctrlKey || pressed.metaKey || pressed.altKey;
  if (busy) return;
  const jump = Object.entries(PAGES).find(([, it]) => it.key === pressed.key);
  // By when keys were pressed, however late a busy page hears of it.
  const soon = pressed.timeStamp - goes < 1500;
  goes = pressed.key === "g" ? pressed.timeStamp : -Infinity;
  if (soon && jump) go(at().outbox, jump[0]);
  else if (pressed.key === "/") {
    pressed.preventDefault();
    const search = document.querySelector("input[type=search]");
    if (search) search.focus();
    else go(at().outbox, "events", null, { search: "now" });
  } else if (pressed.key === "p") pause(!live.paused);
  else if (pressed.key === "?") keys();
}

async function start() {
  const told = await get("/api/v1/overview");
  me = told.caller;
  live.frame = { at: told.started_at, outboxes: told.outboxes };
  frame();
  watch(() => {
    tellState();
    const found = live.frame.outboxes.find((it) => it.name === at().outbox);
    const badge = nav.querySelector(".badge");
    if (badge) say(badge, found?.dead ? (found.dead > 999 ? "999+" : found.dead) : "");
  });
  begin();
  turn();
  window.addEventListener("hashchange", turn);
  window.addEventListener("resize", showPlace);
  document.addEventListener("keydown", press);
  // Its address would be taken for that of a page.
  document.querySelector(".skip").addEventListener("click", (clicked) => {
    clicked.preventDefault();
    page.focus();
  });
  setInterval(keepTimes, 1000);
}

start().catch((error) => {
  replace(banner, h("div.notice", { "data-kind": "bad" }, h("strong", {}, error.message), h("p", {}, error.remedy ?? "")));
  setTimeout(() => location.reload(), 5000);
});
