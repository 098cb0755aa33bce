// A message's text on the page: prose with its line breaks, code fences, and in answers `code` and **weight**. Nothing in it is ever
// read as HTML.

import { el, say } from "./dom.js";

/** The parts of a text: [{ code: false, text }, { code: true, language, text }…]. A fence that has not ended yet is code already. */
export function parts(text) {
  const found = [];
  let prose = [];
  let fence = null;
  const endProse = () => {
    const joined = prose.join("\n").replace(/^\n+|\s+$/g, "");
    if (joined) found.push({ code: false, language: "", text: joined });
    prose = [];
  };
  for (const line of text.split("\n")) {
    const mark = /^\s{0,3}(`{3,}|~{3,})\s*([^`]*)$/.exec(line);
    if (fence === null && mark) {
      endProse();
      fence = { mark: mark[1], language: mark[2].trim(), lines: [] };
    } else if (fence !== null && mark && mark[1].startsWith(fence.mark) && mark[2] === "") {
      found.push({ code: true, language: fence.language, text: fence.lines.join("\n") });
      fence = null;
    } else if (fence !== null) {
      fence.lines.push(line);
    } else {
      prose.push(line);
    }
  }
  if (fence !== null) found.push({ code: true, language: fence.language, text: fence.lines.join("\n") });
  endProse();
  return found;
}

/** A paragraph's children: text, and elements for what stands in marks that begin and end in one line. */
function marked(text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(/`([^`\n]+)`|\*\*([^*\n]+)\*\*/g)) {
    found.push(text.slice(at, match.index), match[1] ? el("code", {}, match[1]) : el("strong", {}, match[2]));
    at = match.index + match[0].length;
  }
  return [...found, text.slice(at)];
}

function node(part, marks) {
  if (!part.code) return el("p", { class: "prose" }, ...(marks ? marked(part.text) : [part.text]));
  const code = el("pre", { tabindex: "0", role: "group", "aria-label": part.language ? `${part.language} code` : "code" }, el("code", {}, part.text));
  return el("div", { class: "fence" }, part.language ? el("span", { class: "language" }, part.language) : null, code);
}

/** Keeps one element's children in step with a text that grows: only what changed is touched. */
export class Body {
  /** `marks`: whether marks in prose are shown as what they mean. */
  constructor(marks) {
    this.marks = marks;
    this.element = el("div", { class: "body" });
    this.shown = [];
  }

  show(text) {
    const now = parts(text);
    now.forEach((part, i) => {
      const old = this.shown[i];
      const element = this.element.children[i];
      if (!old) this.element.append(node(part, this.marks));
      else if (old.code !== part.code || old.language !== part.language) element.replaceWith(node(part, this.marks));
      else if (old.text === part.text) return;
      else if (part.code) say(element.querySelector("code"), part.text);
      else element.replaceChildren(...(this.marks ? marked(part.text) : [part.text]));
    });
    while (this.element.children.length > now.length) this.element.lastElementChild.remove();
    this.shown = now;
  }
}
