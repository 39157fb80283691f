// Elements without markup: whatever comes from an outbox becomes text, and nothing else.

import { near } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
// What a reader would not see, or what would turn the text around it.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export const shown = (text) =>
  String(text).replace(UNSEEN, (odd) => (odd === "\r" ? "\\r" : `\\u${odd.charCodeAt(0).toString(16).padStart(4, "0")}`));

// h("a.main", { href: "#/", onclick: f }, "text", node, [more], null)
export function h(what, props = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElement(tag), classes, props, children);
}

export function svg(what, props = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElementNS(SVG, tag), classes, props, children);
}

function fill(node, classes, props, children) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else if (name === "href" && !/^(#|\/(?!\/))/.test(value)) throw new Error("links lead to pages of ours only");
    else node.setAttribute(name, value === true ? "" : shown(value));
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    node.append(child instanceof Node ? child : shown(child));
  }
}

export function replace(node, ...children) {
  node.replaceChildren();
  put(node, children);
}

// Only what changed is touched, so that nothing flickers and a selection stays.
export function say(node, text) {
  const wanted = shown(text ?? "");
  if (node.textContent !== wanted) node.textContent = wanted;
}

// Shows a list: what stays the same stays the same element.
export function list(parent, items, key, make) {
  const before = parent.listed ?? new Map();
  const now = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (now.has(name)) continue;
    const sign = JSON.stringify(item);
    let kept = before.get(name);
    if (!kept || kept.sign !== sign) {
      const node = make(item);
      if (kept) {
        const focus = focused(kept.node);
        if (kept.node === place) place = node;
        kept.node.replaceWith(node);
        if (focus != null) focusable(node)[focus]?.focus();
      }
      kept = { node, sign };
    }
    if (kept.node === place) place = place.nextElementSibling;
    else parent.insertBefore(kept.node, place);
    now.set(name, kept);
  }
  while (place) {
    const next = place.nextElementSibling;
    place.remove();
    place = next;
  }
  parent.listed = now;
}

const focusable = (node) => [...node.querySelectorAll("a, button, input, summary")];

function focused(node) {
  const at = focusable(node).indexOf(document.activeElement);
  return at < 0 ? null : at;
}

export const icon = (name) => svg("svg.icon", { "aria-hidden": "true" }, svg("use", { href: `/page/icons.svg#${name}` }));

// A time, told by how far away it is, and kept so.
export const when = (iso) => (iso ? h("time", { datetime: iso, title: iso }, near(iso)) : "–");

export function keepTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) say(time, near(time.dateTime));
}

export const pill = (kind, text = kind) => h("span.pill", { "data-kind": kind }, text);

export const mono = (text, title) => h("code", { title }, text);

export const facts = (pairs) =>
  h("dl.facts", {}, pairs.filter(([, value]) => value != null && value !== "").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

export const empty = (title, text) => h("div.empty", {}, icon("good"), h("p", {}, h("strong", {}, title)), text && h("p.dim", {}, text));

export const table = (heads, body) =>
  h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), body));
