// Canvas: sizes, colours of the theme, lines.

const probe = document.createElement("span");
probe.hidden = true;
let colours = new Map();

/** Colours are the style's; canvas wants them resolved. */
export function colour(name) {
  if (!colours.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

export function forgetColours() {
  colours = new Map();
}

/** The canvas's context in CSS pixels, cleared: { c, w, h }, or null while it is not laid out. */
export function clear(canvas) {
  const w = canvas.clientWidth;
  const h = canvas.clientHeight;
  if (w === 0 || h === 0) return null;
  const scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(w * scale), Math.round(h * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, w, h);
  return { c, w, h };
}

/** A line of values [{ t, v }…] over the last `spanMs`, from zero to the largest. Null values are gaps; `sparse` values are dots on a thin line. */
export function line(canvas, values, now, spanMs, { name, sparse }) {
  const area = clear(canvas);
  if (area === null) return;
  const { c, w, h } = area;
  const most = Math.max(0, ...values.map(({ v }) => v ?? 0));
  const x = (t) => w - ((now - t) / spanMs) * w;
  const y = (v) => h - 1.5 - (most > 0 ? v / most : 0) * (h - 4);
  c.strokeStyle = colour("line");
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(0, h - 0.5);
  c.lineTo(w, h - 0.5);
  c.stroke();
  for (const run of sparse ? [values.filter(({ v }) => v !== null)] : runs(values)) {
    if (run.length === 0) continue;
    c.beginPath();
    run.forEach(({ t, v }, i) => (i === 0 ? c.moveTo(x(t), y(v)) : c.lineTo(x(t), y(v))));
    c.strokeStyle = colour(name);
    c.lineWidth = sparse ? 0.8 : 1.6;
    c.lineJoin = "round";
    c.stroke();
    c.lineTo(x(run.at(-1).t), h);
    c.lineTo(x(run[0].t), h);
    c.closePath();
    c.globalAlpha = 0.14;
    c.fillStyle = colour(name);
    c.fill();
    c.globalAlpha = 1;
    for (const { t, v } of sparse || run.length === 1 ? run : []) {
      c.beginPath();
      c.arc(x(t), Math.min(y(v), h - 3), 2.2, 0, 7);
      c.fill();
    }
  }
}

function runs(values) {
  const found = [];
  let open = null;
  for (const value of values) {
    if (value.v === null) open = null;
    else if (open === null) found.push((open = [value]));
    else open.push(value);
  }
  return found;
}
