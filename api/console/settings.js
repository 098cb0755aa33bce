// The settings of a chat. Empty means that the field is not sent: the server's default holds.

import { $, keep, keptJson } from "./dom.js";
import { key, setKey } from "./server.js";

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const KEPT = "coxswain.settings";

const field = (name) => $(`set-${name}`);

/** What to send: { system, fields }, or { wrong } in words. The server judges ranges; it knows them better. */
export function read() {
  const fields = {};
  for (const name of NUMBERS) {
    const input = field(name);
    if (input.validity.badInput) return { wrong: `${name} is not a number.` };
    if (input.value === "") continue;
    const value = Number(input.value);
    if (name === "seed" && !Number.isSafeInteger(value)) return { wrong: "seed must be a whole number of at most 15 digits: a browser rounds larger ones." };
    fields[name] = value;
  }
  return { system: field("system").value.trim(), fields };
}

export function setSeed(seed) {
  field("seed").value = String(seed);
  save();
}

function save() {
  const all = Object.fromEntries(["system", ...NUMBERS].map((name) => [name, field(name).value]));
  keep(sessionStorage, KEPT, JSON.stringify(all));
}

export function open(focus) {
  $("settings").hidden = false;
  $("settings-toggle").setAttribute("aria-expanded", "true");
  if (focus) field(focus).focus();
}

/** `keyChanged` is called when another key is in force. */
export function start(keyChanged) {
  const saved = keptJson(sessionStorage, KEPT, {});
  for (const name of ["system", ...NUMBERS]) field(name).value = saved[name] ?? "";
  field("key").value = key();
  $("settings").addEventListener("submit", (event) => event.preventDefault());
  $("settings").addEventListener("input", save);
  field("key").addEventListener("change", () => {
    setKey(field("key").value.trim());
    keyChanged();
  });
  $("settings-toggle").addEventListener("click", () => {
    const opens = $("settings").hidden;
    $("settings").hidden = !opens;
    $("settings-toggle").setAttribute("aria-expanded", String(opens));
  });
  $("reset").addEventListener("click", () => {
    for (const name of ["system", ...NUMBERS]) field(name).value = "";
    save();
  });
}
