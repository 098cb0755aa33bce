// The lanes: one a row, the last minute from left to right. A row that joins takes the first free lane and keeps it until it leaves, so
// that one sees how rows share the batch. Between two looks things are drawn as they were found at the second.

import { $, count, el, many, say, seconds } from "./dom.js";
import { clear, colour } from "./draw.js";
import { ours } from "./chat.js";

export const SPAN_MS = 60_000;
/** Lanes that are there even if nobody rows in them. */
const LANES_MIN = 4;
const LANES_MAX = 64;
const QUEUE_SHOWN = 12;
/** After a longer silence what came between is unknown, and left blank. */
const GAP_MS = 2500;
const LOOK_MS = 500;
/** How high prefill is drawn if the server does not say how far it is. */
const LEVEL_UNKNOWN = 0.6;

const lanes = [];
/** Times when the worker was not ready: { from, to }. */
let losses = [];
let lastLook = -Infinity;

function addLane() {
  const lane = {
    /** Whose it is. Ids may be given twice; a row's number is its own. */
    row: null,
    last: null,
    samples: [],
    name: el("span", { class: "name" }),
    phase: el("span", { class: "phase" }),
    strip: el("canvas", { "aria-hidden": "true" }),
    word: el("span", { class: "word" }),
  };
  lane.phase.append("free");
  lane.element = el("li", { class: "lane", "data-phase": "free" }, lane.name, lane.phase, lane.strip, lane.word);
  lanes.push(lane);
  $("lanes").append(lane.element);
  return lane;
}

/** Whose row it is; where everybody has the same key, or none, the request's own id. */
function nameOf(row) {
  if (ours.has(row.id)) return "this chat";
  return row.key && row.key !== "anonymous" ? row.key : row.id;
}

/** A look at the rows. `ready` is whether the worker is. */
export function look(rows, ready, now) {
  const known = now - lastLook < GAP_MS;
  const from = known ? lastLook : now - LOOK_MS;
  lastLook = now;
  noteLoss(ready, from, now, known);
  const here = new Map(rows.map((row) => [row.row, row]));
  for (const lane of lanes) {
    if (lane.row !== null && !here.has(lane.row)) leave(lane, now);
  }
  const inLane = new Map(lanes.filter((lane) => lane.row !== null).map((lane) => [lane.row, lane]));
  const queued = [];
  let unseen = 0;
  for (const row of rows) {
    let lane = inLane.get(row.row);
    if (!lane && row.phase !== "queued") {
      lane = lanes.find((l) => l.row === null) ?? (lanes.length < LANES_MAX ? addLane() : undefined);
      if (lane) join(lane, row);
      else unseen += 1;
    }
    if (lane) note(lane, row, from, now);
    if (row.phase === "queued") queued.push(row);
  }
  for (const lane of lanes) {
    while (lane.samples.length > 0 && lane.samples[0].to < now - SPAN_MS) lane.samples.shift();
  }
  const used = lanes.findLastIndex((lane) => lane.row !== null || lane.samples.length > 0) + 1;
  while (lanes.length > Math.max(LANES_MIN, used)) lanes.pop().element.remove();
  while (lanes.length < LANES_MIN) addLane();
  showQueue(queued);
  $("idle").hidden = used > 0 && unseen === 0;
  say($("idle"), unseen > 0 ? `and ${many(unseen, "more row")}` : "No row has been at work in the last minute.");
  draw(now);
}

function noteLoss(ready, from, now, known) {
  if (!ready) {
    const open = losses.at(-1);
    if (known && open && open.to === from) open.to = now;
    else losses.push({ from, to: now });
  }
  losses = losses.filter((loss) => loss.to > now - SPAN_MS);
}

function join(lane, row) {
  lane.row = row.row;
  lane.last = null;
  lane.element.dataset.id = row.id;
  lane.element.classList.toggle("ours", ours.has(row.id));
  say(lane.name, nameOf(row));
  lane.name.title = row.id;
}

function leave(lane, now) {
  lane.row = null;
  lane.last = null;
  lane.samples.push({ from: now, to: now, kind: "end" });
  lane.element.dataset.phase = "free";
  delete lane.element.dataset.id;
  lane.element.classList.remove("ours");
  for (const part of [lane.name, lane.word]) say(part, "");
  say(lane.phase, "free");
}

function note(lane, row, from, now) {
  const { last } = lane;
  if (last === null && row.age_ms !== undefined) from = Math.max(from, now - row.age_ms);
  const share = (tokens) => (row.prompt_tokens > 0 && tokens !== undefined ? Math.min(1, tokens / row.prompt_tokens) : null);
  const cached = share(row.cached_tokens) ?? 0;
  const made = row.generated_tokens - (last?.generated_tokens ?? 0);
  if (row.phase === "prefill") {
    // A row that is computed again after a preemption starts anew.
    const level = share(row.prefilled_tokens);
    lane.samples.push({ from, to: now, kind: "prefill", cached, level, before: last?.phase === "prefill" ? share(last.prefilled_tokens) : cached });
  } else if (row.phase === "decode") {
    const prefills = last === null || last.phase !== "decode";
    // Its prompt was read between the looks, and its first tokens came: half and half is as good as any.
    const turned = prefills ? (from + now) / 2 : from;
    if (prefills) lane.samples.push({ from, to: turned, kind: "prefill", cached, level: row.prefilled_tokens === undefined ? null : 1, before: share(last?.prefilled_tokens) ?? cached });
    lane.samples.push({ from: turned, to: now, kind: "decode", rate: (1000 * made) / Math.max(1, now - turned) });
  } else {
    lane.samples.push({ from, to: now, kind: "wait" });
  }
  if (last && row.preemptions > last.preemptions) lane.samples.push({ from, to: from, kind: "preempted" });
  lane.last = row;
  lane.element.dataset.phase = row.phase === "queued" ? "wait" : row.phase;
  say(lane.phase, row.phase === "queued" ? "waits again" : row.phase);
  say(lane.word, words(row));
}

function words(row) {
  if (row.phase === "prefill") {
    const of = `${count(row.prompt_tokens)} prompt`;
    return row.prefilled_tokens === undefined ? of : `${count(row.prefilled_tokens)} of ${of}`;
  }
  return row.max_tokens ? `${count(row.generated_tokens)} of ${count(row.max_tokens)}` : many(row.generated_tokens, "token");
}

function showQueue(queued) {
  say($("queue-word"), queued.length === 0 ? "empty" : many(queued.length, "row"));
  const chips = queued.slice(0, QUEUE_SHOWN).map((row) => {
    const age = row.age_ms === undefined ? "" : `, ${seconds(row.age_ms / 1000)}`;
    return [`${nameOf(row)}: ${count(row.prompt_tokens)} prompt${age}`, row.preemptions > 0];
  });
  if (queued.length > QUEUE_SHOWN) chips.push([`and ${count(queued.length - QUEUE_SHOWN)} more`, false]);
  const list = $("queue");
  while (list.children.length > chips.length) list.lastElementChild.remove();
  chips.forEach(([text, again], i) => {
    const item = list.children[i] ?? list.appendChild(el("li", { class: "chip" }));
    item.classList.toggle("again", again);
    say(item, text);
  });
}

/** Also when the theme or the width changes. */
export function draw(now = lastLook) {
  // Nine tenths of what is drawn fit; the few looks that caught many tokens at once are cut, or nothing else could be told apart.
  const rates = lanes.flatMap((lane) => lane.samples.filter((s) => s.rate > 0).map((s) => s.rate)).sort((a, b) => a - b);
  const fastest = rates[Math.floor(0.9 * (rates.length - 1))] ?? 1;
  for (const lane of lanes) drawLane(lane, now, fastest);
}

function drawLane(lane, now, fastest) {
  const area = clear(lane.strip);
  if (area === null) return;
  const { c, w, h } = area;
  const x = (t) => w - ((now - t) / SPAN_MS) * w;
  c.fillStyle = colour("line");
  for (let s = 15; s < 60; s += 15) c.fillRect(Math.round(x(now - 1000 * s)), 0, 1, h);
  // On whole pixels, so that neighbours meet without a seam.
  for (const s of lane.samples) drawSample(c, s, Math.round(x(s.from)), Math.round(x(s.to)), h, fastest);
  c.fillStyle = colour("bad");
  c.globalAlpha = 0.22;
  for (const loss of losses) c.fillRect(x(loss.from), 0, x(loss.to) - x(loss.from), h);
  c.globalAlpha = 1;
}

function drawSample(c, s, from, to, h, fastest) {
  const wide = to - from;
  switch (s.kind) {
    case "prefill": {
      const at = (level) => h - Math.max(3, level * h);
      // The time it takes, pale, and in it how much of the prompt has been read: that grows chunk by chunk.
      c.fillStyle = colour("prefill");
      c.globalAlpha = 0.3;
      c.fillRect(from, 0, wide, h);
      c.globalAlpha = 1;
      c.beginPath();
      c.moveTo(from, h);
      c.lineTo(from, at(s.level === null ? LEVEL_UNKNOWN : s.before));
      c.lineTo(from + wide, at(s.level ?? LEVEL_UNKNOWN));
      c.lineTo(from + wide, h);
      c.fill();
      c.fillStyle = colour("prefix");
      c.fillRect(from, h - s.cached * h, wide, s.cached * h);
      break;
    }
    case "decode": {
      const high = s.rate > 0 ? 5 + (h - 7) * Math.min(1, s.rate / fastest) : 2;
      c.fillStyle = colour("decode");
      c.fillRect(from, h - high, wide, high);
      break;
    }
    case "wait":
      c.fillStyle = colour("soft");
      c.fillRect(from, h - 2, Math.max(1, wide - 2), 2);
      break;
    case "preempted":
      c.fillStyle = colour("bad");
      c.fillRect(from - 1, 0, 2, h);
      break;
    case "end":
      c.fillStyle = colour("soft");
      c.fillRect(to, h - 7, 1.5, 7);
      break;
  }
}
