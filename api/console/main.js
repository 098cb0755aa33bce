// Starts the page: theme, views, chat, and the look at the batch.

import { $, count, keep, say } from "./dom.js";
import * as batch from "./batch.js";
import * as chat from "./chat.js";
import { forgetColours } from "./draw.js";
import * as lanes from "./lanes.js";
import * as settings from "./settings.js";
import { Watch } from "./watch.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

const theme = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");

function redraw() {
  forgetColours();
  lanes.draw();
  batch.redrawLines();
}

function showTheme() {
  const other = theme() === "dark" ? "Light" : "Dark";
  say($("theme"), other);
  $("theme").setAttribute("aria-label", `${other} theme`);
  redraw();
}

function startTheme() {
  $("theme").addEventListener("click", () => {
    const chosen = theme() === "dark" ? "light" : "dark";
    const system = dark.matches ? "dark" : "light";
    // What the system says anyway is not kept: the page follows the system again.
    if (chosen === system) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    keep(localStorage, "coxswain.theme", chosen === system ? "" : chosen);
    showTheme();
  });
  dark.addEventListener("change", showTheme);
  showTheme();
}

/** On a narrow screen one of the two is shown. */
function startViews() {
  for (const view of ["chat", "batch"]) {
    $(`view-${view}`).addEventListener("click", () => {
      document.body.dataset.view = view;
      for (const each of ["chat", "batch"]) $(`view-${each}`).setAttribute("aria-pressed", String(each === view));
      redraw();
    });
  }
  new ResizeObserver(redraw).observe($("batch"));
}

const watch = new Watch({
  stats: batch.stats,
  metrics: batch.metrics,
  away: batch.away,
  model(card) {
    say($("model"), `${card.id} · ${count(card.max_model_len)} tokens of context`);
    $("model").title = card.id;
    chat.model(card.id, card.max_model_len);
  },
  noModel({ text, wantsKey }) {
    say($("model"), wantsKey ? "a key is wanted: see Settings" : text);
    $("model").title = text;
  },
});

startTheme();
startViews();
settings.start(() => watch.keyChanged());
chat.start();
$("ask-now").addEventListener("click", () => watch.now());
watch.now();
if (matchMedia("(min-width: 60rem)").matches) $("message").focus();
