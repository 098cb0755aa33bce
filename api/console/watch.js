// Looks at the service: /stats about twice a second, /metrics every two. Nothing is asked while nobody sees the page, and a server
// that is away is asked ever more rarely.

import { ask, refusal } from "./server.js";
import { parse } from "./metrics.js";

const LOOK_MS = 500;
const METRICS_EVERY_MS = 2000;
/** A look that takes longer counts as none. */
const PATIENCE_MS = 5000;
const AWAY_MS = [1000, 2000, 4000, 8000];

/**
 * `seen` has: stats(snapshot, now), metrics(parsed, now), model(card), noModel(refusal), away(refusal, nextMs, now).
 * Times are performance.now().
 */
export class Watch {
  constructor(seen) {
    this.seen = seen;
    this.misses = 0;
    this.timer = null;
    this.look = null;
    this.metricsAt = -Infinity;
    this.known = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.now()));
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.look?.abort();
    this.look = null;
  }

  /** Another key may see what the one before could not. */
  keyChanged() {
    this.known = false;
    this.now();
  }

  /** Looks at once, and from there on. */
  now() {
    this.pause();
    if (!document.hidden) this.once();
  }

  async once() {
    const look = new AbortController();
    this.look = look;
    const late = setTimeout(() => look.abort(), PATIENCE_MS);
    let next = LOOK_MS;
    try {
      const began = performance.now();
      await this.stats(look.signal);
      this.misses = 0;
      // The rhythm is from look to look, not from answer to look.
      next = Math.max(LOOK_MS / 2, LOOK_MS - (performance.now() - began));
    } catch (error) {
      if (this.look !== look) return;
      next = AWAY_MS[Math.min(this.misses, AWAY_MS.length - 1)];
      this.misses += 1;
      this.known = false;
      this.seen.away(error.said ?? { text: "The server is away." }, next, performance.now());
    } finally {
      clearTimeout(late);
    }
    if (this.look === look) this.timer = setTimeout(() => this.once(), next);
  }

  async stats(signal) {
    const stats = await (await this.get("stats", signal)).json();
    const now = performance.now();
    this.seen.stats(stats, now);
    // Until a model is there, the other pages answer 503: they are not asked.
    if (stats.worker.state !== "ready") return;
    if (!this.known) await this.model(signal);
    if (now - this.metricsAt >= METRICS_EVERY_MS - LOOK_MS / 2) {
      this.metricsAt = now;
      this.seen.metrics(parse(await (await this.get("metrics", signal)).text()), now);
    }
  }

  /** The batch may be seen without a key where the model may not: asked once, not with every look. */
  async model(signal) {
    const response = await ask("v1/models", { signal });
    this.known = true;
    if (response.ok) this.seen.model((await response.json()).data[0]);
    else this.seen.noModel(await refusal(response));
  }

  async get(path, signal) {
    const response = await ask(path, { signal });
    if (!response.ok) throw Object.assign(new Error(path), { said: await refusal(response) });
    return response;
  }
}
