// Starts service and browser, runs the checks one after the other, ends everything. See run.sh.

import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { checks } from "./checks.mjs";
import { Console, Ear } from "./page.mjs";
import { pictures } from "./pictures.mjs";
import { Crowd, Service, freePort } from "./service.mjs";

/** More than this and something stands still. */
const WHOLE_MS_MAX = 15 * 60_000;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { screenshots: { type: "string" }, only: { type: "string" }, port: { type: "string" } },
});
const [binary, executablePath, library] = positionals;
const { chromium } = createRequire(`${library}/`)("playwright-core");

const folder = mkdtempSync(join(tmpdir(), "console-test-"));
const service = new Service(binary, Number(options.port ?? (await freePort())), join(folder, "service.log"));
let browser = null;
let ending = null;

/** Once, however it came to the end. */
function end() {
  ending ??= (async () => {
    await Promise.allSettled([browser?.close(), service.close()]);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  })();
  return ending;
}

async function stop(why, status) {
  console.error(`console test: ${why}`);
  await end();
  process.exit(status);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop(signal, 130));
process.on("unhandledRejection", (error) => stop(error?.stack ?? error, 1));
setTimeout(() => stop("took too long", 1), WHOLE_MS_MAX).unref();

async function start() {
  await service.start();
  const profile = join(folder, "profile");
  const own = { handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false };
  browser = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args: FLAGS, viewport: { width: 1440, height: 900 }, ...own });
  browser.setDefaultTimeout(60_000);
}

async function run() {
  const ear = new Ear();
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    if (options.only && !name.includes(options.only)) continue;
    const began = performance.now();
    const page = await browser.newPage();
    ear.listen(page);
    let fault = null;
    try {
      await check({ page, console: new Console(page), service, ear, folder });
    } catch (error) {
      fault = error;
      if (!ending) console.log(`  on the page: ${await page.evaluate(() => document.body.innerText.slice(0, 1500)).catch(() => "nothing")}`);
    }
    // Interrupted: what failed then says nothing, and whoever ends things ends this process.
    if (ending) return new Promise(() => {});
    await page.close();
    const complaints = ear.heard.splice(0);
    if (fault === null && complaints.length > 0) fault = new Error(`the browser complained:\n${complaints.join("\n")}`);
    failed += fault === null ? 0 : 1;
    console.log(`${fault === null ? "ok  " : "FAIL"} ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)${fault === null ? "" : `\n${fault.stack}`}`);
    // The next check finds the service as the first one did.
    for (const crowd of Crowd.all) await crowd.stop();
    if (fault !== null) await service.end();
    if (!service.process) await service.start();
    await service.idle();
  }
  if (options.screenshots) await pictures(browser, service, options.screenshots);
  return failed;
}

let failed = 1;
try {
  const began = performance.now();
  await start();
  failed = await run();
  console.log(`console test: ${failed === 0 ? "all well" : `${failed} failed`}, ${((performance.now() - began) / 1000).toFixed(0)} s`);
} catch (error) {
  console.error(`console test: ${error.stack}\n${service.tail()}`);
}
await end();
process.exit(failed === 0 ? 0 : 1);
