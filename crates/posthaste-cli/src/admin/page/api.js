// Asks the server. Knows how a refusal looks, and nothing of pages.

export class Refusal extends Error {
  constructor(status, told) {
    super(told.message);
    Object.assign(this, { status, code: told.code, remedy: told.remedy });
  }
}

const NOBODY = {
  code: "unreachable",
  message: "the server cannot be reached",
  remedy: "see whether posthaste runs; this page tries again by itself",
};

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, NOBODY);
  }
  if (answer.status === 401) {
    location.assign("/login");
    // The page is about to go: nobody is to be told anything more.
    return new Promise(() => {});
  }
  const told = await answer.json().catch((error) => {
    // Half of an answer is none, whatever its status.
    throw error.name === "AbortError" ? error : new Refusal(answer.status, { ...NOBODY, message: `the server answered ${answer.status}, and no more` });
  });
  // Health is told with 503 when something is ill.
  if (answer.ok || told.checks) return told;
  throw new Refusal(answer.status, told);
}

export const get = (path, signal) => send(path, { signal, headers: { Accept: "application/json" } });

export const post = (path, body) =>
  send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// Paths about one outbox: of("orders")`events/${id}`
export const of = (outbox) => (parts, ...values) =>
  `/api/v1/outboxes/${encodeURIComponent(outbox)}/` + String.raw({ raw: parts }, ...values.map(encodeURIComponent));

export const query = (words) => {
  const given = Object.entries(words).filter(([name, value]) => value != null && (value !== "" || name === "fingerprint"));
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

// Where a page of ours is: #/OUTBOX/PAGE/ID?FILTERS
export const link = (outbox, name, id, words = {}) => {
  // Some errors have no kind of their own: that, too, is something to filter by.
  const told = ([name, value]) => value != null && (value !== "" || name === "fingerprint");
  const given = new URLSearchParams(Object.entries(words).filter(told)).toString();
  const path = [outbox, name, id].filter((part) => part != null).map(encodeURIComponent).join("/");
  return `#/${path}${given && `?${given}`}`;
};

// An id for what is asked for once, however often that is sent. (`crypto.randomUUID` is there with TLS only.)
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [[0, 8], [8, 12], [12, 16], [16, 20], [20, 32]].map(([from, to]) => hex.slice(from, to)).join("-");
}
