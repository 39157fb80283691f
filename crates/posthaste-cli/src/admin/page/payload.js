// What an event says, to be read: JSON as a tree, other text as it is, anything else in hex.
// Only what is open is built: a megabyte costs no more than its first lines.

import { h, replace, shown } from "./dom.js";
import { bytes, count } from "./format.js";
import { parse } from "./json.js";

const ROWS = 100;
const LONG = 400;
const TEXT = 20_000;
const HEX = 4096;

export function payload(content) {
  const place = h("div.payload");
  const tree = content.encoding === "utf-8" && !content.truncated ? attempt(content.payload) : null;
  const text = () => replace(place, content.encoding === "utf-8" ? plain(content.payload) : hex(content.payload));
  const pretty = () => replace(place, h("div.json", {}, node(null, tree, true, content.bytes < TEXT)));
  const copy = h("button.small", { onclick: () => navigator.clipboard?.writeText(content.payload) }, "Copy");
  const tabs = tree && h("button.small", { "aria-pressed": "false", onclick: toggle }, "As it was sent");
  function toggle() {
    const raw = tabs.getAttribute("aria-pressed") !== "true";
    tabs.setAttribute("aria-pressed", String(raw));
    if (raw) text();
    else pretty();
  }
  if (tree) pretty();
  else text();
  const size = `${content.content_type || "no content type"} · ${bytes(content.bytes)}`;
  return h("div", {}, h("div.row.spread", {}, h("span.dim", {}, size, content.truncated && " · only the beginning is shown"), h("span.row", {}, tabs, window.isSecureContext && copy)), place);
}

function attempt(text) {
  try {
    return parse(text);
  } catch {
    return null;
  }
}

// One value, with its key if it has one. `open` is for it, `wide` for what is in it.
function node(key, value, open, wide) {
  const name = key == null ? null : [h("span.key", {}, JSON.stringify(key)), ": "];
  if (!value.entries) return h("div.leaf", {}, name, leaf(value));
  const [begin, end] = value.kind === "object" ? ["{", "}"] : ["[", "]"];
  if (!value.entries.length) return h("div.leaf", {}, name, begin + end);
  const inner = h("div.inner");
  const about = h("span.dim", {}, ` ${count(value.entries.length)} ${value.kind === "object" ? "fields" : "items"} `);
  const whole = h("details", {}, h("summary", {}, name, begin, about, h("span.end", {}, end)), inner, h("div", {}, end));
  const build = () => inner.childElementCount || more(inner, value.entries, 0, wide);
  whole.addEventListener("toggle", () => whole.open && build());
  if (open) {
    build();
    whole.open = true;
  }
  return whole;
}

function more(inner, entries, from, wide) {
  for (const [key, value] of entries.slice(from, from + ROWS)) {
    inner.append(node(key, value, wide && (value.entries?.length ?? 0) <= ROWS, wide));
  }
  const rest = entries.length - from - ROWS;
  if (rest <= 0) return;
  const button = h("button.small", {}, `${count(rest)} more`);
  button.addEventListener("click", () => {
    button.remove();
    more(inner, entries, from + ROWS, wide);
  });
  inner.append(button);
}

function leaf(value) {
  if (value.kind !== "string") return h(`span.${value.kind}`, {}, value.text);
  const text = JSON.stringify(value.text);
  const span = h("span.string", {}, text.length > LONG ? `${text.slice(0, LONG)}…` : text);
  if (text.length <= LONG) return span;
  const button = h("button.small", {}, `all ${count(text.length)} characters`);
  button.addEventListener("click", () => {
    span.textContent = shown(text);
    button.remove();
  });
  return [span, " ", button];
}

const plain = (text) => stretch("pre.text", (from) => (from < text.length ? text.slice(from, from + TEXT) : null), TEXT);

function hex(base64) {
  const data = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  return stretch("pre.hex", (from) => (from < data.length ? dump(data, from, Math.min(from + HEX, data.length)) : null), HEX);
}

function dump(data, from, to) {
  let text = "";
  for (let at = from; at < to; at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, to))];
    const signs = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    text += `${at.toString(16).padStart(8, "0")}  ${digits.padEnd(47)}  ${signs}\n`;
  }
  return text;
}

// A long text, a stretch at a time.
function stretch(what, part, step) {
  const pre = h(what, { tabindex: "0" }, part(0) ?? "");
  const button = h("button.small", { onclick: next }, "Show more");
  let from = step;
  function next() {
    pre.append(shown(part(from) ?? ""));
    from += step;
    button.hidden = part(from) == null;
  }
  button.hidden = part(step) == null;
  return [pre, button];
}
