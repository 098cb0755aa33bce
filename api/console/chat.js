// The chat: turns, the answer that is running, and what is sent. One answer runs at a time; stopping aborts its request, which frees the row.

import { $, announce, count, el, keep, keptJson, many, ms, randomName, rate, say } from "./dom.js";
import { Body } from "./answer.js";
import { ask, events, refusal } from "./server.js";
import * as settings from "./settings.js";

const KEPT = "coxswain.chat";
/** How often the page shows what came, at most: a fast model says more than a screen can. */
const SHOW_MS = 40;

/** { role, text, end, reason, final, usage, fault } and its elements; `end` of an answer: null while it runs, then done, stopped or failed. */
let turns = [];
let running = null;
let modelName = "assistant";
let contextTokens = null;

/** The request ids that this page gave, so that the batch can tell which rows are ours. */
export const ours = new Set();

export function model(name, context) {
  modelName = name;
  contextTokens = context;
  showContext();
}

// --- turns and their elements

function add(turn) {
  turn.body = new Body(turn.role === "assistant");
  turn.meta = el("div", { class: "meta" });
  const user = turn.role === "user";
  turn.element = el("li", { class: `turn ${turn.role}` }, el("p", { class: "who" }, user ? "You" : modelName), turn.body.element, turn.meta);
  turns.push(turn);
  $("log").append(turn.element);
  turn.body.show(turn.text);
  $("empty").hidden = true;
  return turn;
}

function dropFrom(index) {
  for (const turn of turns.splice(index)) turn.element.remove();
}

function save() {
  const plain = turns.map(({ role, text, end, reason, final, usage, fault }) => ({ role, text, end, reason, final, usage, fault }));
  keep(sessionStorage, KEPT, plain.length > 0 ? JSON.stringify(plain) : "");
}

/** What the model is given: a question without an answer stays on the page, and out of later turns, because most templates want turns by turns. */
function messages(system) {
  const sent = system ? [{ role: "system", content: system }] : [];
  turns.forEach((turn, i) => {
    const answer = turns[i + 1];
    const asked = turn.role === "user" && (answer === undefined || answer.text !== "" || answer.end === null);
    if (asked || (turn.role === "assistant" && turn.text !== "")) sent.push({ role: turn.role, content: turn.text });
  });
  return sent;
}

// --- asking

async function answer() {
  const wanted = settings.read();
  if (wanted.wrong) return wrongSetting(wanted.wrong);
  const id = `console-${randomName()}`;
  const body = { messages: messages(wanted.system), ...wanted.fields, stream: true, stream_options: { include_usage: true } };
  const turn = add({ role: "assistant", text: "", end: null, final: null, usage: null, fault: null });
  turn.element.setAttribute("aria-busy", "true");
  const run = { abort: new AbortController(), turn, stopped: false };
  running = run;
  ours.add(id);
  showComposer();
  showMeta();
  stick(true);
  announce("Asking");
  try {
    await stream(turn, id, body, run.abort.signal);
  } catch (error) {
    if (run.stopped) turn.end = "stopped";
    else fail(turn, { text: error instanceof TypeError ? "The server cannot be reached, or the connection broke." : String(error.message ?? error) });
  }
  if (running === run) running = null;
  flush(turn);
  turn.element.removeAttribute("aria-busy");
  if (turn.element.isConnected) {
    announce(turn.end === "failed" ? turn.fault.text : turn.end === "stopped" ? "Stopped" : "The answer is complete");
    save();
    showMeta();
    showContext();
  }
  showComposer();
}

async function stream(turn, id, body, signal) {
  const headers = { "content-type": "application/json", "x-request-id": id };
  const response = await ask("v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!response.ok) return fail(turn, await refusal(response));
  for await (const data of events(response)) {
    if (data === "[DONE]") continue;
    const chunk = JSON.parse(data);
    if (chunk.error) return fail(turn, { text: `The answer was cut: ${chunk.error.message}` });
    if (chunk.usage) turn.usage = chunk.usage;
    if (chunk.coxswain) turn.final = chunk.coxswain;
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) grow(turn, choice.delta.content);
    if (choice?.finish_reason) {
      turn.end = "done";
      turn.reason = choice.finish_reason;
    }
  }
  // A stream ends with its mark. Without one the text may lack its tail.
  if (turn.end !== "done") fail(turn, { text: "The connection ended before the answer did." });
}

function grow(turn, text) {
  turn.text += text;
  turn.pending ??= setTimeout(() => flush(turn), SHOW_MS);
}

function flush(turn) {
  clearTimeout(turn.pending);
  turn.pending = undefined;
  const sticks = atEnd();
  turn.body.show(turn.text);
  stick(sticks);
}

function fail(turn, fault) {
  turn.end = "failed";
  turn.fault = fault;
}

export function stop() {
  if (running === null) return;
  running.stopped = true;
  running.abort.abort();
}

function send() {
  const text = $("message").value.trim();
  if (text === "") return;
  if (running !== null) return announce("An answer is still running; Escape stops it");
  const wanted = settings.read();
  if (wanted.wrong) return wrongSetting(wanted.wrong);
  $("message").value = "";
  fit();
  add({ role: "user", text, end: "done" });
  save();
  answer();
}

function again() {
  if (running !== null || turns.length === 0) return;
  if (turns.at(-1).role === "assistant") dropFrom(turns.length - 1);
  answer();
  $("stop").focus();
}

function wrongSetting(text) {
  settings.open();
  say($("context"), text);
  announce(text);
}

// --- what stands under an answer

function chip(text, title) {
  return el("span", { class: "chip", title }, text);
}

function figures(turn) {
  const { final, usage } = turn;
  const chips = [];
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    chips.push(chip(`${count(usage.prompt_tokens)} + ${many(usage.completion_tokens, "token")}`, "of the prompt, and of the answer"));
    if (cached > 0) chips.push(chip(`${count(cached)} cached`, "prompt tokens that a cached prefix spared"));
  }
  if (final) {
    chips.push(chip(`first token ${ms(final.ttft_ms)}`, `${ms(final.queue_ms)} in the queue, ${ms(final.prefill_ms)} of prefill`));
    const more = (usage?.completion_tokens ?? 0) - 1;
    if (more > 0 && final.decode_ms > 0) chips.push(chip(`${rate((1000 * more) / final.decode_ms)} tokens/s`, `${ms(final.decode_ms)} of decode`));
    if (final.preemptions > 0) chips.push(chip(`preempted ${final.preemptions}×`, "the row gave its blocks back for a while"));
    if (final.restarts > 0) chips.push(chip(`worker lost ${final.restarts}×`, "the answer went on when the model was back"));
  }
  if (turn.end === "stopped") chips.push(chip("stopped", "by you; the row is free"));
  if (turn.reason === "length") chips.push(chip("cut at max_tokens", "or at the end of the context"));
  return chips;
}

function actions(turn, last) {
  const found = [];
  const button = (text, onclick, title) => el("button", { type: "button", class: "quiet", onclick, title }, text);
  if (turn.final) {
    const seed = turn.final.seed;
    found.push(button(`seed ${seed}`, () => {
      settings.setSeed(seed);
      announce(`Seed ${seed} is set for the next answers`);
      settings.open();
    }, "Use this seed for the next answers"));
  }
  if (turn.text && navigator.clipboard) {
    found.push(button("Copy", () => navigator.clipboard.writeText(turn.text).then(() => announce("Copied"), () => announce("The browser did not allow that"))));
  }
  if (turn.fault?.wantsKey) found.push(button("Enter a key", () => settings.open("key")));
  if (last && running === null) found.push(button(turn.end === "failed" ? "Try again" : "Regenerate", again));
  return found;
}

function showMeta() {
  turns.forEach((turn, i) => {
    if (turn.role !== "assistant") return;
    if (turn.end === null) return turn.meta.replaceChildren();
    const fault = turn.fault ? el("p", { class: "fault" }, turn.fault.text) : null;
    const unanswered = turn.text === "" && turn.end !== "done" ? el("p", { class: "note" }, "Without an answer, this message is left out of later turns.") : null;
    const line = el("div", { class: "chips" }, ...figures(turn), ...actions(turn, i === turns.length - 1));
    turn.meta.replaceChildren(...[fault, unanswered, line].filter(Boolean));
  });
  // They grew where the reader is looking.
  stick(atEnd(160));
}

function showContext() {
  const usage = turns.findLast((turn) => turn.usage)?.usage;
  const text = usage && contextTokens ? `${count(usage.total_tokens)} of ${count(contextTokens)} tokens of context` : "";
  say($("context"), text);
}

// --- the box

function showComposer() {
  const runs = running !== null;
  const hadFocus = [$("send"), $("stop")].includes(document.activeElement);
  $("send").hidden = runs;
  $("stop").hidden = !runs;
  // A button that hides must not take the focus with it; but on a phone the box would bring the keyboard up.
  if (hadFocus) $(runs ? "stop" : matchMedia("(pointer: coarse)").matches ? "scroll" : "message").focus();
}

/** As high as its text, up to what the style allows. */
function fit() {
  const box = $("message");
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}

/** What scrolls: the conversation on a wide screen, the page on a narrow one. */
function scroller() {
  return getComputedStyle($("scroll")).overflowY === "auto" ? $("scroll") : document.scrollingElement;
}

function atEnd(slack = 60) {
  const s = scroller();
  return s.scrollHeight - s.scrollTop - s.clientHeight < slack;
}

function stick(sticks) {
  if (sticks && $("chat").offsetParent !== null) scroller().scrollTop = scroller().scrollHeight;
}

function fresh() {
  stop();
  dropFrom(0);
  save();
  $("empty").hidden = false;
  showContext();
  $("message").focus();
}

export function start() {
  for (const turn of keptJson(sessionStorage, KEPT, [])) add(turn);
  // The page was left while the answer ran: the row is gone, and may be asked for again.
  if (turns.at(-1)?.role === "user") add({ role: "assistant", text: "", end: "stopped" });
  showMeta();
  $("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  $("message").addEventListener("input", fit);
  $("message").addEventListener("keydown", (event) => {
    // While a word is being composed, Enter belongs to the input method.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") stop();
  });
  $("stop").addEventListener("click", stop);
  $("new-chat").addEventListener("click", fresh);
}
