// What the server tells every second, to whoever on this page wants to know; until it is paused.

const listeners = new Set();
let source = null;
let again = 0;

export const live = { paused: false, lost: false, frame: null, heard: 0 };

// Calls with each frame, and whenever it is paused, resumed, lost or back.
export function watch(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
  if (live.frame) listener(live);
}

function tell() {
  for (const listener of [...listeners]) listener(live);
}

export function begin() {
  clearTimeout(again);
  source?.close();
  source = new EventSource("/api/v1/live");
  source.onmessage = (message) => {
    const frame = JSON.parse(message.data);
    live.lost = false;
    live.heard = Date.now();
    if (live.paused) return;
    live.frame = frame;
    tell();
  };
  source.onerror = () => {
    live.lost = true;
    tell();
    // A refusal ends it for good: try anew, and go to sign in if that is why.
    source.close();
    if (document.hidden) return;
    fetch("/api/v1/me").then((answer) => answer.status === 401 && location.assign("/login"), () => {});
    again = setTimeout(begin, 1500);
  };
}

// Browsers have six connections for each site, and tabs that nobody looks at need none.
document.addEventListener("visibilitychange", () => {
  if (!source) return;
  if (document.hidden) {
    clearTimeout(again);
    source.close();
  } else if (source.readyState === EventSource.CLOSED) begin();
});

export function pause(paused) {
  live.paused = paused;
  tell();
}
