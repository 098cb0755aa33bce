// The two pictures of docs/: a chat beside a full batch in light, and the batch on a dark phone.

import { statSync } from "node:fs";
import { join } from "node:path";
import { Console } from "./page.mjs";
import { Crowd, until } from "./service.mjs";

const BYTES_MAX = 200_000;
const NAMES = ["ana", "nightly-eval", "marta", "docs-bot", "tom", "search", "notebook-7"];

async function shoot(page, path) {
  await page.screenshot({ path });
  const { size } = statSync(path);
  if (size > BYTES_MAX) throw new Error(`${path} has ${size} bytes`);
  console.log(`${path}: ${size} bytes`);
}

export async function pictures(browser, service, folder) {
  const page = await browser.newPage();
  await page.emulateMedia({ colorScheme: "light" });
  const ui = new Console(page);
  await ui.open(service.url);
  await ui.set({ temperature: 0, max_tokens: 120 });
  await ui.send("Write a Python function that reverses a string.");
  await ui.answer();
  const crowd = new Crowd(service);
  for (const [i, name] of NAMES.entries()) {
    crowd.row(`${name}-${4821 + 37 * i}`, [1, 4, 16, 2, 30, 0, 8][i], 400);
    await page.waitForSelector(`#lanes li:nth-child(${i + 1}):not([data-phase="free"])`);
  }
  await ui.send("Write a short poem about a rowing team.");
  await ui.speaking(60);
  await until("eight lanes decode", async () => (await page.$$('#lanes li[data-phase="decode"]')).length === 8);
  await page.mouse.move(0, 0);
  await shoot(page, join(folder, "console-light.png"));
  await page.setViewportSize({ width: 375, height: 812 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.click("#view-batch");
  await shoot(page, join(folder, "console-dark.png"));
  await crowd.stop();
  await page.close();
}
