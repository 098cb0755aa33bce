// The page as a person has it, and the ear for everything that a browser complains about.

import assert from "node:assert/strict";

/** Collects complaints. What a check provokes on purpose it allows, for as long as it runs. */
export class Ear {
  constructor() {
    this.heard = [];
    this.allowed = [];
  }

  listen(page) {
    const hear = (text) => {
      if (!this.allowed.some((pattern) => pattern.test(text))) this.heard.push(text);
    };
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") hear(`console: ${message.text()} (${message.location().url})`);
    });
    page.on("pageerror", (error) => hear(`exception: ${error.stack ?? error}`));
    page.on("requestfailed", (request) => {
      // A look at /stats that a closed page or a newer look let go.
      const left = request.failure()?.errorText === "net::ERR_ABORTED" && /\/(stats|metrics|v1\/models)$/.test(request.url());
      if (!left) hear(`request failed: ${request.url()} ${request.failure()?.errorText}`);
    });
  }

  /** Allows what a check brings about itself, while `run` runs. */
  async expecting(patterns, run) {
    this.allowed = patterns;
    try {
      return await run();
    } finally {
      this.allowed = [];
    }
  }
}

export class Console {
  constructor(page) {
    this.page = page;
  }

  async open(url) {
    const response = await this.page.goto(url);
    assert.equal(response.status(), 200);
    await this.state("ready");
  }

  async state(...names) {
    await this.page.waitForFunction((names) => names.includes(document.body.dataset.server), names, { polling: 50 });
  }

  async set(settings) {
    if (await this.page.isHidden("#settings")) await this.page.click("#settings-toggle");
    for (const [name, value] of Object.entries(settings)) {
      await this.page.fill(`#set-${name}`, String(value));
      await this.page.dispatchEvent(`#set-${name}`, "change");
    }
    await this.page.click("#settings-toggle");
  }

  async fresh(settings = {}) {
    await this.page.click("#new-chat");
    await this.page.click("#settings-toggle");
    await this.page.click("#reset");
    await this.page.click("#settings-toggle");
    await this.set(settings);
  }

  async send(text) {
    await this.page.fill("#message", text);
    await this.page.press("#message", "Enter");
    await this.page.waitForSelector("#log li.assistant:last-child");
  }

  /** The last answer, once it has ended: { text, chips, fault }. */
  async answer() {
    await this.page.waitForSelector('#log li.assistant:last-child:not([aria-busy])', { timeout: 120_000 });
    return this.page.$eval("#log li.assistant:last-child", (li) => ({
      text: li.querySelector(".body").textContent,
      chips: [...li.querySelectorAll(".chip")].map((chip) => chip.textContent),
      fault: li.querySelector(".fault")?.textContent ?? null,
    }));
  }

  /** Waits until the running answer has some text. */
  async speaking(length = 1) {
    await this.page.waitForFunction((n) => (document.querySelector("#log li.assistant:last-child .body")?.textContent.length ?? 0) >= n, length, { polling: 50 });
  }

  turns() {
    return this.page.$$eval("#log > li", (items) => items.map((li) => [li.classList.contains("user") ? "user" : "assistant", li.querySelector(".body").textContent]));
  }

  again() {
    return this.page.click('#log li.assistant:last-child .meta button:text-matches("Regenerate|Try again")');
  }
}

/** Runs in the page: texts that are less than AA apart from what is behind them. */
export function pale() {
  const channel = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility() || element.matches("noscript, .unseen, .skip")) continue;
    const [light, dark] = [luminance(numbers(getComputedStyle(element).color)), luminance(behind(element))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${walk.currentNode.data.trim().slice(0, 40)} (${element.className || element.tagName})`);
  }
  return found;
}

/** Runs in the page: what can be focused and has no name. */
export function nameless() {
  const named = (e) => e.ariaLabel || e.getAttribute("aria-labelledby") || e.labels?.length > 0 || e.textContent.trim();
  return [...document.querySelectorAll("a, button, input, textarea, select, [tabindex]")].filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80));
}
