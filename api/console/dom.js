// The page's few helpers: elements, storage, and how numbers are said.
// Text becomes text nodes only. The server's policy (trusted types) makes a browser refuse anything else.

export const $ = (id) => document.getElementById(id);

/** An element: properties that begin with "on" are listeners, the others attributes; children are elements or text. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Writes only what changed, so that a page that is looked at twice a second lays out nothing for nothing. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Tells a screen reader, once. */
export function announce(text) {
  say($("said"), text);
}

/** Storage that may be forbidden: then nothing is kept. */
export function kept(storage, name) {
  try {
    return storage.getItem(name);
  } catch {
    return null;
  }
}

/** What was kept as JSON, or `otherwise`: another version of the page may have written it. */
export function keptJson(storage, name, otherwise) {
  try {
    return JSON.parse(kept(storage, name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(storage, name, value) {
  try {
    if (value) storage.setItem(name, value);
    else storage.removeItem(name);
  } catch {
    // Full or forbidden: it lasts as long as the page.
  }
}

const counts = new Intl.NumberFormat("en");

export const count = (n) => counts.format(n);

/** "1 row", "2 rows". */
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

/** Three digits that matter. */
const short = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? n : short(n)} ${units[unit]}`;
}

export function ms(x) {
  if (x < 1) return "< 1 ms";
  if (x < 999.5) return `${x.toFixed(x < 10 ? 1 : 0)} ms`;
  return seconds(x / 1000);
}

export function seconds(s) {
  if (s < 60) return `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export const rate = (x) => (x === 0 ? "0" : x < 10 ? x.toFixed(1) : count(Math.round(x)));

/** Seven hex digits or more; not crypto.randomUUID, which plain HTTP on a LAN does not have. */
export function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");
}
