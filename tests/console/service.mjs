// The service under test: a process of its own on a port of its own, and clients beside the page.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { openSync, closeSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";

export const PATIENCE_MS = 60_000;
const LOOK_MS = 50;

/** Waits until `holds` gives something; nothing is measured against a clock but the patience. */
export async function until(what, holds, patienceMs = PATIENCE_MS) {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`never came true: ${what}`);
    await new Promise((wake) => setTimeout(wake, LOOK_MS));
  }
}

export async function freePort() {
  const socket = createServer().listen(0, "127.0.0.1");
  await once(socket, "listening");
  const { port } = socket.address();
  socket.close();
  await once(socket, "close");
  return port;
}

export class Service {
  constructor(binary, port, log) {
    Object.assign(this, { binary, port, log, url: `http://127.0.0.1:${port}/`, process: null, closed: false });
  }

  /** `more` options, for this time. */
  async start(...more) {
    if (this.closed) throw new Error("the test is ending");
    const log = openSync(this.log, "a");
    // Eight rows at once and no more, so that a queue can be seen; a worker that is back at once.
    const options = ["serve", "--port", String(this.port), "--kv-budget", "600MB", "--batch", "8", "--drain-timeout", "1", ...more];
    const child = spawn(this.binary, options, { stdio: ["ignore", log, log] });
    closeSync(log);
    this.process = child;
    child.on("error", (error) => console.error(`the service did not start: ${error.message}`));
    child.ended = new Promise((gone) => child.once("exit", gone));
    await until("the service is ready", async () => {
      if (child.exitCode !== null) throw new Error(`the service ended:\n${this.tail()}`);
      return (await this.stats().catch(() => null))?.worker.state === "ready";
    });
  }

  /** Makes a key and the file that `--keys` reads, and gives the secret, which is said where it does not get into the file. */
  key(name, file) {
    const { stdout, stderr } = spawnSync(this.binary, ["key", name], { encoding: "utf8" });
    writeFileSync(file, stdout);
    return /sk-\S+/.exec(stderr + stdout)[0];
  }

  async end() {
    const child = this.process;
    this.process = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), 15_000);
    await child.ended;
    clearTimeout(late);
  }

  /** Ends it for good. */
  close() {
    this.closed = true;
    return this.end();
  }

  async stats() {
    return (await fetch(`${this.url}stats`, { signal: AbortSignal.timeout(10_000) })).json();
  }

  /** No row runs, waits or is shown. */
  idle() {
    return until("every row is freed", async () => {
      const s = await this.stats();
      return s.running === 0 && s.waiting === 0 && s.rows.length === 0;
    });
  }

  tail() {
    return readFileSync(this.log, "utf8").split("\n").slice(-15).join("\n");
  }
}

/** So many streams at once, each with a prompt of its own; `stop` lets them go. */
export class Crowd {
  constructor(service) {
    this.service = service;
    this.abort = new AbortController();
    this.streams = [];
    Crowd.all.add(this);
  }

  row(name, words, maxTokens) {
    const content = `${name}: tell me a story of the sea. ${"The tide came in, and the boats went out. ".repeat(words)}`;
    const body = JSON.stringify({ messages: [{ role: "user", content }], max_tokens: maxTokens, ignore_eos: true, stream: true, seed: 1 });
    const headers = { "content-type": "application/json", "x-request-id": name };
    const request = fetch(`${this.service.url}v1/chat/completions`, { method: "POST", headers, body, signal: this.abort.signal });
    this.streams.push(request.then((response) => response.text()).catch(() => {}));
  }

  async stop() {
    Crowd.all.delete(this);
    this.abort.abort();
    await Promise.all(this.streams);
  }

  /** Those that a check which failed has left. */
  static all = new Set();
}
