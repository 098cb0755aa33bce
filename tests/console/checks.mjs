// What a person at the console relies on. Each check has a page of its own and leaves no row behind.

import assert from "node:assert/strict";
import { join } from "node:path";
import { nameless, pale } from "./page.mjs";
import { Crowd, until } from "./service.mjs";

const HOSTILE = `<img src=x onerror="window.hacked=1"><script>window.hacked=2</script><b>bold</b>`;
const STORY = "Write a very long story about a lighthouse and the sea.";
const CHAT = "**/v1/chat/completions";

/** A stream as the service would write it. */
const stream = (...chunks) => ({ status: 200, contentType: "text/event-stream", body: chunks.map((c) => `data: ${typeof c === "string" ? c : JSON.stringify(c)}\n\n`).join("") });
const said = (content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const refused = (status, message, headers = {}) => ({ status, headers, contentType: "application/json", body: JSON.stringify({ error: { message, type: "x", param: null, code: null } }) });

const sent = (page) => page.waitForRequest(CHAT).then((request) => request.postDataJSON());

export const checks = {
  async "a chat round trip"({ page, console: ui, service }) {
    await ui.open(service.url);
    assert.match(await page.textContent("#model"), /SmolLM2.* · 8,192 tokens/);
    await ui.set({ temperature: 0, max_tokens: 40, system: "You answer briefly." });
    // How the answer looked, each time it changed.
    await page.evaluate(() => {
      window.looks = new Set();
      const note = () => window.looks.add(document.querySelector("#log li.assistant .body")?.textContent ?? "");
      new MutationObserver(note).observe(document.getElementById("log"), { subtree: true, childList: true, characterData: true });
    });
    const [first] = await Promise.all([sent(page), ui.send("My name is Zoltan. Tell me in two sentences what a harbour is.")]);
    assert.deepEqual(first.messages.map((m) => m.role), ["system", "user"]);
    const answer = await ui.answer();
    assert.equal(answer.fault, null);
    assert.ok((await page.evaluate(() => window.looks.size)) >= 4, "the answer came in one piece");
    assert.match(answer.chips.join(" | "), /\d+ \+ \d+ tokens \|.*first token [\d.]+ m?s \|.*tokens\/s/);
    assert.match(await page.textContent("#context"), /^\d+ of 8,192 tokens of context$/);
    assert.match(await page.textContent("#said"), /complete/);

    const [second] = await Promise.all([sent(page), ui.send("What is my name?")]);
    assert.deepEqual(second.messages.map((m) => m.role), ["system", "user", "assistant", "user"]);
    assert.match((await ui.answer()).chips.join(" | "), /\d+ cached/, "the turns before were in the prefix cache");
    assert.equal(second.messages[1].content, first.messages[1].content);
    // A reload keeps the conversation, in this tab.
    const before = await ui.turns();
    assert.equal(before.length, 4);
    await page.reload();
    await ui.state("ready");
    assert.deepEqual(await ui.turns(), before);
    await page.click("#new-chat");
    assert.deepEqual(await ui.turns(), []);
  },

  async "settings are sent, and regenerate asks again"({ page, console: ui, service, ear }) {
    await ui.open(service.url);
    const fields = { temperature: 1.1, top_p: 0.95, top_k: 50, min_p: 0.01, max_tokens: 16, seed: 7 };
    await ui.set({ ...fields, key: "k-123" });
    const request = page.waitForRequest(CHAT);
    await ui.send("Tell me about a random animal.");
    const body = (await request).postDataJSON();
    for (const [name, value] of Object.entries(fields)) assert.equal(body[name], value, name);
    assert.equal((await (await request).allHeaders()).authorization, "Bearer k-123");
    assert.deepEqual(await page.evaluate(() => [Object.values(localStorage).join(), sessionStorage.getItem("coxswain.key")]), ["", "k-123"]);
    const one = await ui.answer();
    await ui.again();
    assert.equal((await ui.answer()).text, one.text, "the same seed gives the same text");
    await ui.set({ seed: 8 });
    await ui.again();
    const other = await ui.answer();
    assert.notEqual(other.text, one.text);
    assert.deepEqual(await ui.turns(), [["user", "Tell me about a random animal."], ["assistant", other.text]]);
    // Nothing set, nothing sent; no key, no header.
    await ui.fresh({ key: "" });
    const bare = page.waitForRequest(CHAT);
    await ui.send("Say hi.");
    assert.deepEqual(Object.keys((await bare).postDataJSON()).sort(), ["messages", "stream", "stream_options"]);
    assert.equal((await (await bare).allHeaders()).authorization, undefined);
    await ear.expecting([/chat\/completions net::ERR_ABORTED/], async () => {
      await page.click("#stop");
      await ui.answer();
    });
  },

  async "stop frees the row"({ page, console: ui, service, ear }) {
    await ui.open(service.url);
    await ear.expecting([/chat\/completions net::ERR_ABORTED/], async () => {
      await ui.set({ temperature: 0, max_tokens: 2000 });
      await ui.send(STORY);
      await ui.speaking(20);
      assert.equal((await service.stats()).rows.length, 1);
      // In the batch, too, the row is known as this chat's.
      await page.waitForSelector('#lanes li.ours[data-phase="decode"]');
      await page.keyboard.press("Escape");
      const answer = await ui.answer();
      assert.ok(answer.chips.includes("stopped") && answer.fault === null, JSON.stringify(answer));
      await service.idle();
      await page.waitForSelector("#lanes li:not([data-phase=free])", { state: "detached" });
      // What was said stays, and is part of the next turn.
      const [next] = await Promise.all([sent(page), ui.send("Go on.")]);
      assert.deepEqual(next.messages.map((m) => m.content), [STORY, answer.text, "Go on."]);
      await ui.speaking();
      await page.click("#stop");
      await ui.answer();
      assert.ok(await page.isVisible("#send"));
      await service.idle();
    });
  },

  async "errors are said in words and cost no turn"({ page, console: ui, service, ear }) {
    await ui.open(service.url);
    // Aborted: after an error event the page lets the connection go, and the browser may not have seen its end yet.
    await ear.expecting([/status of 400/, /status of 401/, /status of 429/, /status of 503/, /ERR_FAILED/, /completions net::ERR_ABORTED/], async () => {
      await ui.set({ max_tokens: 9_000_000, temperature: 0 });
      await ui.send("Say hello.");
      const { fault, text } = await ui.answer();
      assert.match(fault, /refused this request\. .*max_tokens.*8192/, fault);
      assert.equal(text, "");
      await ui.set({ max_tokens: 5 });
      await ui.again();
      assert.equal((await ui.answer()).fault, null);
      const kept = await ui.turns();

      const cases = [
        [refused(401, "no API key was sent"), /wants a key.*No API key was sent\..*Settings/],
        [refused(429, "the queue is full", { "retry-after": "7" }), /too much to do.*The queue is full\. It asks to come again in 7 s/],
        [refused(503, "the model is being loaded", { "retry-after": "3" }), /not ready.*The model is being loaded\..* 3 s/],
        [{ status: 503, contentType: "text/html", body: "<h1>bad gateway</h1>" }, /not ready/],
        [stream(said("Half of "), { error: { message: "the model was lost", type: "server_error" } }), /The answer was cut: the model was lost/],
        [stream(said("Half of ")), /connection ended before/],
      ];
      for (const [answer, words] of cases) {
        await page.route(CHAT, (route) => route.fulfill(answer), { times: 1 });
        await ui.send("And now?");
        assert.match((await ui.answer()).fault, words);
        assert.deepEqual((await ui.turns()).slice(0, 2), kept);
      }
      await page.route(CHAT, (route) => route.abort(), { times: 1 });
      await ui.send("And now?");
      assert.match((await ui.answer()).fault, /cannot be reached/);
      // Turns must alternate: what was not answered is left out.
      const [next] = await Promise.all([sent(page), ui.again()]);
      const roles = next.messages.map((m) => m.role);
      assert.ok(roles.every((role, i) => role === (i % 2 ? "assistant" : "user")) && roles.length === 7, roles.join());
      assert.equal((await ui.answer()).fault, null);
    });
  },

  async "text is text"({ page, console: ui, service }) {
    await ui.open(service.url);
    const code = "```html\n<script>window.hacked=3</script>\n  <i>two\n```";
    await page.route(CHAT, (route) => route.fulfill(stream(said(`Look: ${HOSTILE}\n\nand \`<u>x</u>\`\n${code}\nend`), { choices: [{ delta: {}, finish_reason: "stop" }] }, "[DONE]")), { times: 1 });
    await ui.send(HOSTILE);
    await ui.answer();
    assert.equal((await ui.turns())[0][1], HOSTILE);
    assert.ok((await ui.turns())[1][1].startsWith(`Look: ${HOSTILE}\n\nand <u>x</u>`));
    assert.equal(await page.textContent("#log pre code"), "<script>window.hacked=3</script>\n  <i>two");
    assert.equal(await page.$$eval("#log img, #log script, #log b, #log i, #log u", (all) => all.length), 0);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    // Nor does the policy let a script in that got there all the same.
    const policy = (await page.request.get(service.url)).headers()["content-security-policy"];
    assert.match(policy, /default-src 'none'.*script-src 'self'.*frame-ancestors 'none'/);
  },

  async "eight rows at work are eight lanes"({ page, console: ui, service }) {
    await ui.open(service.url);
    const crowd = new Crowd(service);
    // A short one that decodes while the others are read, and two more than there is room for.
    crowd.row("row-0", 0, 600);
    await page.waitForSelector('#lanes li[data-id="row-0"][data-phase="decode"]');
    for (let i = 1; i < 10; i += 1) crowd.row(`row-${i}`, 12 + i, 600);
    const phases = () => page.$$eval("#lanes li", (lanes) => lanes.map((lane) => lane.dataset.phase));
    await until("one lane decodes while others prefill", async () => {
      const seen = await phases();
      return seen.includes("prefill") && seen.includes("decode");
    });
    await until("eight lanes are taken", async () => (await phases()).filter((phase) => phase !== "free").length === 8);
    assert.equal(await page.textContent("#running"), "8");
    assert.equal(await page.textContent("#waiting"), "2 waiting");
    assert.equal(await page.$$eval("#queue li", (items) => items.length), 2);
    await until("seven more decode", async () => (await phases()).filter((phase) => phase === "decode").length === 8);
    // Something is drawn in the colours of both phases.
    const drawn = await page.evaluate(() => {
      const { data } = (([c]) => c.getContext("2d").getImageData(0, 0, c.width, c.height))([...document.querySelectorAll("#lanes canvas")].slice(-1));
      const near = (name) => {
        const probe = document.body.appendChild(document.createElement("span"));
        probe.style.color = `var(--${name})`;
        const want = getComputedStyle(probe).color.match(/\d+/g).map(Number);
        probe.remove();
        let n = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255 && want.every((v, j) => Math.abs(v - data[i + j]) < 3)) n += 1;
        return n;
      };
      return [near("prefill"), near("decode")];
    });
    assert.ok(drawn.every((n) => n > 20), `pixels of prefill and decode: ${drawn}`);
    await until("figures are there", async () => {
      const text = async (id) => page.textContent(`#${id}`);
      return Number(await text("rate")) > 0 && /s$/.test(await text("ttft")) && /s$/.test(await text("itl")) && /B · /.test(await text("kv-rows-word"));
    });
    const s = await service.stats();
    assert.match(await page.textContent("#worker"), new RegExp(`pid ${s.worker.pid}`));
    await crowd.stop();
    await service.idle();
    await until("the lanes are free", async () => (await phases()).every((phase) => phase === "free"));
    assert.equal(await page.textContent("#queue-word"), "empty");
  },

  async "what is hard to bring about is shown, too"({ page, console: ui, service, ear }) {
    const base = await service.stats();
    const row = (i, more) => ({ row: i, id: `id-${i}`, key: i % 2 ? "anonymous" : `team-${i}`, phase: "decode", prompt_tokens: 1000, cached_tokens: 250, prefilled_tokens: 1000, generated_tokens: 5, max_tokens: 1200, preemptions: 0, age_ms: 400, ...more });
    let stats = { ...base, rows: [row(0, { phase: "prefill", prefilled_tokens: 512 }), row(1), row(2, { phase: "queued" })] };
    await page.route("**/stats", (route) => route.fulfill({ json: stats }));
    await ui.open(service.url);
    const lanes = () => page.$$eval("#lanes li", (items) => items.map((li) => ["name", "phase", "word"].map((part) => li.querySelector(`.${part}`).textContent).join(" | ")));
    assert.deepEqual((await lanes()).slice(0, 2), ["team-0 | prefill | 512 of 1,000 prompt", "id-1 | decode | 5 of 1,200"]);
    assert.match(await page.textContent("#queue"), /team-2: 1,000 prompt, 0\.40 s/);
    // One is preempted, one ends, one comes from the queue; a fifth takes the lane that is free.
    stats = { ...base, rows: [row(0, { phase: "queued", preemptions: 1 }), row(2), row(4)] };
    await until("lanes are kept, freed and taken", async () => (await lanes()).join() === "team-0 | waits again | 5 of 1,200,team-2 | decode | 5 of 1,200,team-4 | decode | 5 of 1,200, | free | ");
    // Answers to one request, and requests that a client gave one id, are rows all the same.
    stats = { ...base, running: 100, rows: Array.from({ length: 100 }, (_, i) => row(i, { id: "same" })) };
    await page.waitForFunction(() => document.getElementById("idle").textContent === "and 36 more rows");
    stats = { ...base, draining: true };
    await ui.state("draining");
    stats = { ...base, lost: "lost three times", worker: { ...base.worker, state: "down", pid: null, down: "the model was lost 3 times", exits: 2, hangs: 1, last_loss: "signal 9" } };
    await ui.state("down");
    assert.match(await page.textContent("#banner-text"), /refused: the model was lost 3 times/);
    assert.match(await page.textContent("#worker"), /losses2 exits, 1 hang.*signal 9/);
    // A server that is not of this service says nothing that can be read.
    stats = "no such thing";
    await ui.state("away");
    // One with keys wants one; typed in, it goes along at once.
    await ear.expecting([/status of 401/], async () => {
      await page.unroute("**/stats");
      await page.route("**/stats", (route) => (route.request().headers().authorization === "Bearer k-1" ? route.fulfill({ json: base }) : route.fulfill(refused(401, "no API key was sent"))));
      await ui.state("locked");
      assert.match(await page.textContent("#banner-text"), /wants a key.*under Settings/);
      await ui.set({ key: "k-1" });
      await ui.state("ready");
    });
  },

  async "a server with keys"({ page, console: ui, service, ear, folder }) {
    const secret = service.key("ana", join(folder, "keys.toml"));
    await service.end();
    await service.start("--keys", join(folder, "keys.toml"));
    await ear.expecting([/status of 401/], async () => {
      // The batch may be seen by everybody; the model wants a key.
      await ui.open(service.url);
      await page.waitForFunction(() => /key is wanted/.test(document.getElementById("model").textContent));
      await ui.set({ max_tokens: 60, temperature: 0, key: "sk-not-this-one" });
      await ui.send(STORY);
      assert.match((await ui.answer()).fault, /does not know this one\. .*not one of this server's\. Enter one under Settings\./);
      await page.click('#log button:text("Enter a key")');
      assert.equal(await page.evaluate(() => document.activeElement.id), "set-key");
      await page.click("#settings-toggle");
    });
    await ui.set({ key: secret });
    await page.waitForFunction(() => /SmolLM2/.test(document.getElementById("model").textContent));
    await ui.again();
    await page.waitForSelector("#lanes li.ours");
    assert.equal((await service.stats()).rows[0].key, "ana");
    assert.equal((await ui.answer()).fault, null);
    await service.end();
  },

  async "the worker's death is seen, and the answer goes on"({ page, console: ui, service }) {
    await ui.open(service.url);
    await ui.set({ temperature: 0, max_tokens: 40 });
    await ui.send(STORY);
    await ui.speaking(30);
    const before = (await ui.turns())[1][1];
    const { worker } = await service.stats();
    process.kill(worker.pid, "SIGKILL");
    await ui.state("lost", "loading");
    assert.match(await page.textContent("#banner-text"), /Running answers go on when/);
    await ui.state("ready");
    const answer = await ui.answer();
    assert.equal(answer.fault, null);
    assert.ok(answer.text.startsWith(before) && answer.text.length > before.length);
    assert.match(answer.chips.join(" | "), /\+ 40 tokens.*worker lost 1×/);
    await page.waitForFunction(() => /losses1 exit/.test(document.getElementById("worker").textContent));
    assert.doesNotMatch(await page.textContent("#worker"), new RegExp(`pid ${worker.pid}\\b`));
  },

  async "the server goes away and comes back"({ page, console: ui, service, ear }) {
    await ui.open(service.url);
    await ui.set({ temperature: 0, max_tokens: 4 });
    await ui.send("Say hello.");
    await ui.answer();
    const before = await ui.turns();
    await ear.expecting([/ERR_CONNECTION_REFUSED/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_RESET/, /status of 503/], async () => {
      await service.end();
      await ui.state("away");
      assert.match(await page.textContent("#banner-text"), /away.* Asking again in \d s/);
      assert.equal(await page.textContent("#said"), await page.textContent("#banner-text"));
      await page.waitForFunction(() => /in 4 s/.test(document.getElementById("banner-text").textContent));
      await ui.send("Are you there?");
      assert.match((await ui.answer()).fault, /cannot be reached/);
      // Not before its time, unless it is told to.
      await Promise.all([page.waitForRequest("**/stats", { timeout: 2000 }), page.click("#ask-now")]);
      await service.start();
      await ui.state("ready");
    });
    await page.waitForFunction(() => /The server is back|The model is ready/.test(document.getElementById("said").textContent));
    assert.ok(await page.isHidden("#banner"));
    assert.deepEqual((await ui.turns()).slice(0, 2), before);
    await ui.again();
    assert.equal((await ui.answer()).fault, null);
  },

  async "nothing is asked while nobody looks, and little while nobody answers"({ page, console: ui, service, ear }) {
    await page.clock.install();
    await ui.open(service.url);
    let looks = 0;
    page.on("request", (request) => (looks += request.url().endsWith("/stats") ? 1 : 0));
    const look = (hidden) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await look(true);
    looks = 0;
    await page.clock.runFor(60_000);
    assert.equal(looks, 0);
    await Promise.all([page.waitForResponse("**/stats"), look(false)]);
    // A minute of refused connections: 1, 2, 4, 8, 8… seconds apart.
    await ear.expecting([/ERR_FAILED/, /ERR_CONNECTION_REFUSED/], async () => {
      await page.route("**/stats", (route) => route.abort());
      await page.clock.runFor(1000);
      await ui.state("away");
      looks = 0;
      for (let s = 0; s < 60; s += 1) await page.clock.runFor(1000);
      assert.ok(looks >= 3 && looks <= 12, `${looks} looks in a minute without an answer`);
      await page.unroute("**/stats");
    });
  },

  async "by keyboard alone"({ page, console: ui, service, ear }) {
    await ui.open(service.url);
    // Every stop of the Tab key has a name and shows that it has the focus. The first is the first thing of the page.
    await page.evaluate(() => document.body.querySelector("a, button, input, textarea, [tabindex]").focus());
    const stops = [];
    for (let i = 0; i < 12; i += 1) {
      if (i > 0) await page.keyboard.press("Tab");
      const stop = await page.evaluate(() => {
        const e = document.activeElement;
        return { id: e.id || e.className || e.tagName, outline: getComputedStyle(e).outlineStyle, seen: e.checkVisibility() };
      });
      if (stop.id === "BODY" || stops.some(({ id }) => id === stop.id)) break;
      assert.ok(stop.outline !== "none" && stop.seen, JSON.stringify(stop));
      stops.push(stop);
    }
    const ids = stops.map(({ id }) => id);
    assert.equal(ids[0], "skip");
    for (const id of ["theme", "settings-toggle", "new-chat", "message", "send", "batch"]) assert.ok(ids.includes(id), `${id} is not reached: ${ids}`);
    assert.deepEqual(await page.evaluate(nameless), []);

    await page.focus(".skip");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "message");
    await page.keyboard.type("Say one word.");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("Then another.");
    assert.deepEqual(await ui.turns(), []);
    await page.keyboard.press("Enter");
    await ui.speaking();
    assert.equal((await ui.turns())[0][1], "Say one word.\nThen another.");
    assert.equal(await page.evaluate(() => document.activeElement.id), "message", "the focus stays where one types");
    await ear.expecting([/chat\/completions net::ERR_ABORTED/], async () => {
      await page.keyboard.press("Escape");
      await ui.answer();
    });
    // Settings open and close, and labels lead to their fields.
    await page.focus("#settings-toggle");
    await page.keyboard.press("Enter");
    for (const label of ["System prompt", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "API key"]) assert.ok(await page.getByLabel(label, { exact: true }).isVisible(), label);
    assert.deepEqual(await page.evaluate(nameless), []);
  },

  async "a phone, light and dark"({ page, console: ui, service }) {
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    await page.setViewportSize({ width: 375, height: 740 });
    await ui.open(service.url);
    const wide = `${"x".repeat(300)}\n\`\`\`\n${"y".repeat(300)}\n\`\`\`\n| a | b |\n`;
    await page.route(CHAT, (route) => route.fulfill(stream(said(wide), { choices: [{ delta: {}, finish_reason: "length" }], coxswain: { queue_ms: 1, prefill_ms: 2, decode_ms: 3, ttft_ms: 3, preemptions: 1, restarts: 1, seed: 9007199254740991 } }, { choices: [], usage: { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30, prompt_tokens_details: { cached_tokens: 5 } } }, "[DONE]")), { times: 1 });
    await ui.send("w".repeat(200));
    await ui.answer();
    await page.click("#settings-toggle");
    const crowd = new Crowd(service);
    for (let i = 0; i < 9; i += 1) crowd.row(`a-row-with-quite-a-long-name-${i}`, 2, 300);
    const narrow = async (what) => assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 375, `${what} scrolls sideways`);
    await narrow("chat");
    assert.ok(await page.isHidden("#batch"));
    const pales = [];
    const look = async (what) => pales.push(...(await page.evaluate(pale)).map((p) => `${what}: ${p}`));
    await look("light chat");
    await page.click("#view-batch");
    assert.ok(await page.isHidden("#chat"));
    await page.waitForSelector("#lanes li:nth-child(8)");
    await narrow("batch");
    await look("light batch");
    // The system's theme, until another one is chosen.
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
    const dark = await ground();
    assert.notEqual(dark, light);
    await look("dark batch");
    await page.click("#theme");
    assert.equal(await ground(), light);
    await page.reload();
    assert.equal(await ground(), light, "the choice is kept");
    await page.click("#theme");
    assert.equal(await ground(), dark);
    await page.reload();
    await ui.state("ready");
    assert.equal(await ground(), dark);
    await look("dark chat");
    assert.deepEqual(pales, []);
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0, "nothing moves for those who asked for that");
    await crowd.stop();
  },
};
