// Everything this page asks the server goes through here: addresses are relative, so that a proxy may put it under a path.

import { kept, keep } from "./dom.js";

const KEY = "coxswain.key";

export const key = () => kept(sessionStorage, KEY) ?? "";
export const setKey = (value) => keep(sessionStorage, KEY, value);

export function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key()) headers.authorization = `Bearer ${key()}`;
  return fetch(path, { cache: "no-store", credentials: "omit", ...options, headers });
}

/** Seconds of a Retry-After header, which may also be a date; null without. */
export function retryAfter(response) {
  const text = response.headers.get("retry-after");
  if (text === null) return null;
  const s = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(s) ? Math.max(1, Math.ceil(s)) : null;
}

const asSentence = (text) => (/[.!?…]$/.test(text) ? text : `${text}.`);

/** Why a request was refused, in words: { text, wantsKey, retryS }. */
export async function refusal(response) {
  let said = "";
  try {
    said = (await response.json()).error.message;
  } catch {
    // Not from this service: a proxy's page, for instance.
  }
  const retryS = retryAfter(response);
  const later = retryS === null ? "" : ` It asks to come again in ${retryS} s.`;
  const why = said ? ` ${asSentence(said[0].toUpperCase() + said.slice(1))}` : "";
  switch (response.status) {
    case 401:
      return { text: `The server wants a key, or does not know this one.${why} Enter one under Settings.`, wantsKey: true, retryS };
    case 403:
      return { text: `This key may not do that.${why}`, wantsKey: true, retryS };
    case 429:
      return { text: `The server has too much to do, or this key has asked too often.${why}${later}`, retryS };
    case 503:
      return { text: `The server is not ready.${why}${later}`, retryS };
    default:
      return { text: response.status < 500 ? `The server refused this request.${why || ` (${response.status})`}` : `The server failed.${why || ` (${response.status})`}${later}`, retryS };
  }
}

/** The data of each server-sent event of a response, as they come. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const frames = rest.split(/\r?\n\r?\n/);
      rest = frames.pop();
      for (const frame of frames) {
        const data = frame.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
        if (data.length > 0) yield data.join("\n");
      }
    }
  } finally {
    // Whoever stops listening lets the connection go, and with it the row.
    reader.cancel().catch(() => {});
  }
}
