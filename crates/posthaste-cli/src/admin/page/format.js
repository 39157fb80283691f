// Numbers and times as people read them. Knows no page and no element.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (n) => (n == null ? "–" : Math.abs(n) < 100_000 ? whole.format(n) : short.format(n));

export const rate = (n) => (n == null ? "–" : n < 10 ? String(Math.round(n * 10) / 10) : count(Math.round(n)));

export function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return "<1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const two = (big, small, unit) => (small ? `${big} ${small} ${unit}` : big);
  if (days) return two(`${days} d`, hours, "h");
  if (hours) return two(`${hours} h`, minutes, "min");
  return two(`${minutes} min`, Math.floor(seconds % 60), "s");
}

export function bytes(n) {
  if (n == null) return "–";
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (n >= 1024 && place < units.length - 1) [n, place] = [n / 1024, place + 1];
  return `${place ? n.toFixed(n < 10 ? 1 : 0) : n} ${units[place]}`;
}

// How far away a time is: `3 min ago`, `in 2 h`.
export function near(iso, now = Date.now()) {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (Number.isNaN(seconds)) return iso;
  const far = Math.abs(seconds);
  if (far < 1) return "now";
  const [amount, unit] =
    far < 60 ? [far, "s"] : far < 3600 ? [far / 60, "min"] : far < 86400 ? [far / 3600, "h"] : [far / 86400, "d"];
  return seconds > 0 ? `${Math.floor(amount)} ${unit} ago` : `in ${Math.ceil(amount)} ${unit}`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
