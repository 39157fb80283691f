// Reads JSON as it is written: numbers keep every digit, keys their order, and the same key twice stays twice.

const DEEPEST = 200;

// A value is { kind: "object" | "array" | "string" | "number" | "word", … }. Throws if it is no JSON.
export function parse(text) {
  let at = 0;
  const wrong = () => new SyntaxError(`no JSON at ${at}`);
  const blank = () => {
    while (" \n\r\t".includes(text[at]) && at < text.length) at++;
  };
  const take = (sign) => {
    blank();
    if (text[at] !== sign) return false;
    at++;
    return true;
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found != null) at += found.length;
    return found;
  };
  const string = () => {
    const found = match(/"(?:[^"\\]|\\.)*"/sy);
    if (found == null) throw wrong();
    return JSON.parse(found);
  };

  function value(depth) {
    if (depth > DEEPEST) throw wrong();
    blank();
    if (take("{")) return { kind: "object", entries: members("}", () => entry(depth)) };
    if (take("[")) return { kind: "array", entries: members("]", () => [null, value(depth + 1)]) };
    if (text[at] === '"') return { kind: "string", text: string() };
    const number = match(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (number != null) return { kind: "number", text: number };
    const word = match(/true|false|null/y);
    if (word != null) return { kind: "word", text: word };
    throw wrong();
  }

  function entry(depth) {
    blank();
    const key = string();
    if (!take(":")) throw wrong();
    return [key, value(depth + 1)];
  }

  function members(end, one) {
    const found = [];
    if (take(end)) return found;
    do found.push(one());
    while (take(","));
    if (!take(end)) throw wrong();
    return found;
  }

  const whole = value(0);
  blank();
  if (at < text.length) throw wrong();
  return whole;
}
