// The batch at work, from what Watch sees: the state of things, tiles, KV memory, the worker. Lanes have their own file.

import { $, announce, bytes, count, el, many, ms, rate, say, seconds } from "./dom.js";
import { line } from "./draw.js";
import * as lanes from "./lanes.js";
import { between } from "./metrics.js";

const SPAN_MS = 60_000;
/** What "now" means for a rate, and for the time between tokens. */
const RATE_MS = 2500;
const ITL_MS = 8000;

/** Looks of the last minute. */
let looks = [];
let histograms = [];
let lines = { rate: [], rows: [], ttft: [], itl: [] };
let state = null;
let awaySince = null;

// --- what state the service is in

const STATES = {
  ready: "Ready",
  loading: "Loading the model",
  lost: "Worker lost",
  down: "Down",
  draining: "Draining",
  away: "Server away",
  locked: "Key wanted",
};

function judge(stats) {
  const { worker } = stats;
  if (worker.state === "down") return ["down", `Requests are refused: ${worker.down ?? stats.lost ?? "the model is lost"}`];
  if (stats.draining) return ["draining", "New requests are refused; running answers end in peace."];
  if (worker.state === "lost") return ["lost", `The worker is lost${worker.last_loss ? `: ${worker.last_loss}` : ""}. Running answers go on when the model is back.`];
  if (worker.state === "loading" && stats.restarts + losses(worker) > 0) return ["loading", "The model is being loaded again. Running answers go on when it is back."];
  if (worker.state === "loading") return ["loading", "The model is being loaded; requests are refused until it is there."];
  return ["ready", ""];
}

function showState([name, text], button = false) {
  $("state").dataset.state = name;
  say($("state-word"), STATES[name]);
  $("banner").hidden = text === "";
  $("banner").dataset.state = name;
  say($("banner-text"), text);
  $("ask-now").hidden = !button;
  if (state !== name) {
    // Ready is news only after something else was.
    if (name !== "ready" || state !== null) announce(name === "ready" ? (state === "away" ? "The server is back" : "The model is ready") : text);
    state = name;
    document.body.dataset.server = name;
  }
}

export function away({ text, wantsKey }, nextMs, now) {
  awaySince ??= now;
  const since = wantsKey || now - awaySince < 1000 ? "" : ` for ${seconds(Math.round((now - awaySince) / 1000)).replace(/\.\d+/, "")}`;
  showState([wantsKey ? "locked" : "away", `${text.replace(/\.$/, since + ".")} Asking again in ${Math.round(nextMs / 1000)} s.`], true);
  document.title = `${wantsKey ? "locked" : "away"} · coxswain`;
  lines.rate.push({ t: now, v: null });
  lines.rows.push({ t: now, v: null });
}

// --- a look at /stats

export function stats(s, now) {
  awaySince = null;
  const before = looks.at(-1);
  // Counters that fell belong to another life of the server.
  if (before && (s.steps < before.s.steps || s.tokens.generated < before.s.tokens.generated)) {
    looks = [];
    histograms = [];
  }
  looks.push({ t: now, s });
  looks = looks.filter((look) => look.t > now - SPAN_MS);
  showState(judge(s));
  lanes.look(s.rows, s.worker.state === "ready", now);
  showRate(s, now);
  showRows(s, now);
  showMemory(s.kv);
  showFacts(s);
  document.title = s.running + s.waiting > 0 ? `${many(s.running + s.waiting, "row")} · coxswain` : "coxswain";
  redrawLines(now);
}

/** Without a look in the window there is no rate yet. */
function tokensASecond(now) {
  const newest = looks.at(-1);
  const oldest = looks.find((look) => look.t >= now - RATE_MS);
  return oldest === newest ? null : (1000 * (newest.s.tokens.generated - oldest.s.tokens.generated)) / (newest.t - oldest.t);
}

function showRate(s, now) {
  const v = tokensASecond(now);
  lines.rate.push({ t: now, v });
  say($("rate"), v === null ? "–" : rate(v));
  const step = s.last_step_micros > 0 && s.running > 0 ? `last step ${ms(s.last_step_micros / 1000)}` : "all rows together";
  say($("rate-note"), step);
}

function showRows(s, now) {
  lines.rows.push({ t: now, v: s.running });
  say($("running"), count(s.running));
  say($("waiting"), s.waiting === 0 ? "nobody waits" : `${count(s.waiting)} waiting`);
}

function showMemory(kv) {
  const whole = Math.max(1, kv.budget_bytes);
  say($("kv-word"), kv.budget_bytes > 0 ? `${bytes(kv.budget_bytes)} in blocks of ${bytes(kv.block_bytes)}` : "not laid out yet");
  for (const holder of ["rows", "prefix", "held", "free"]) {
    const n = kv[`${holder}_bytes`];
    $(`kv-${holder}`).style.flexGrow = String(n / whole);
    const share = (100 * n) / whole;
    say($(`kv-${holder}-word`), n === 0 ? "0" : `${bytes(n)} · ${share < 0.1 ? "< 0.1" : share.toFixed(share < 10 ? 1 : 0)} %`);
  }
}

const losses = (worker) => worker.exits + worker.hangs + worker.ipc;

function showFacts(s) {
  const { worker, memory, tokens } = s;
  const by = [[worker.exits, "exit"], [worker.hangs, "hang"], [worker.ipc, "broken link"]].filter(([n]) => n > 0);
  facts("worker", [
    ["state", s.draining ? `${worker.state}, draining` : worker.state],
    ["process", worker.pid ? `pid ${worker.pid}` : worker.mode === "process" ? "none now" : "the server's own"],
    ["losses", by.length === 0 ? "none" : by.map(([n, word]) => many(n, word)).join(", ")],
    worker.last_loss ? ["last loss", worker.last_loss] : null,
    ["step at work", worker.step_deadline_ms > 0 ? `${ms(worker.step_age_ms)} of ${ms(worker.step_deadline_ms)} allowed` : "none"],
    ["weights", bytes(memory.weight_bytes)],
    ["allocator", `${bytes(memory.active_bytes)} in use, ${bytes(memory.peak_bytes)} at most`],
  ]);
  const spared = tokens.prompt > 0 ? ` (${Math.round((100 * tokens.cached) / tokens.prompt)} %)` : "";
  facts("totals", [
    ["generated", many(tokens.generated, "token")],
    ["prompts", many(tokens.prompt, "token")],
    ["of them cached", `${many(tokens.cached, "token")}${spared}`],
    ["steps", count(s.steps)],
    ["preemptions", count(s.preemptions)],
    ["model reopened", many(s.restarts, "time")],
  ]);
}

/** A list of names and values, its elements kept as long as the names stay. */
function facts(id, rows) {
  const list = $(id);
  const wanted = rows.filter(Boolean);
  const names = wanted.map(([name]) => name).join();
  if (list.dataset.names !== names) {
    list.dataset.names = names;
    list.replaceChildren(...wanted.map(([name]) => el("div", {}, el("dt", {}, name), el("dd", {}))));
  }
  wanted.forEach(([, value], i) => say(list.children[i].lastElementChild, value));
}

// --- a look at /metrics

export function metrics(found, now) {
  const before = histograms.at(-1);
  histograms.push({ t: now, ...found });
  histograms = histograms.filter((look) => look.t > now - SPAN_MS - 2500);
  const since = (name, spanMs) => between(histograms.find((look) => look.t >= now - spanMs - 2500)[name], found[name]);
  for (const name of ["ttft", "itl"]) {
    const one = before ? between(before[name], found[name]) : null;
    lines[name].push({ t: now, v: one?.mean ?? null });
  }
  // First tokens are rare: the mean of the last minute; of the time between tokens what is true now.
  const [ttft, itl, itlMinute] = [since("ttft", SPAN_MS), since("itl", ITL_MS), since("itl", SPAN_MS)];
  say($("ttft"), ttft ? ms(1000 * ttft.mean) : "–");
  say($("ttft-note"), ttft ? `p95 ≈ ${ms(1000 * ttft.quantile(0.95))} of ${count(ttft.count)}` : "none in a minute");
  say($("itl"), itl ? ms(1000 * itl.mean) : "–");
  say($("itl-note"), itlMinute ? `p95 ≈ ${ms(1000 * itlMinute.quantile(0.95))}` : "none in a minute");
}

export function redrawLines(now = looks.at(-1)?.t) {
  if (now === undefined) return;
  for (const [name, values] of Object.entries(lines)) {
    lines[name] = values.filter(({ t }) => t > now - SPAN_MS);
    line($(`${name}-line`), lines[name], now, SPAN_MS, { name: name === "ttft" ? "prefill" : "decode", sparse: name === "ttft" });
  }
}
