// draw.js - elements, words and pictures of the console; all text goes in as text.

const SVG = "http://www.w3.org/2000/svg";
const DAY = 86400000;
const BRIEF = 1000; // Gaps below it are drawn small.

export function el(tag, traits = {}, ...children) {
  const it = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [key, value] of Object.entries(traits)) {
    if (key.startsWith("on")) it.addEventListener(key.slice(2), value);
    else if (value === true) it.setAttribute(key, "");
    else if (value !== false && value != null) it.setAttribute(key, value);
  }
  it.append(...children.filter((child) => child != null));
  return it;
}

export function span(ms) {
  if (ms < 10) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 120) return `${minutes} min ${Math.floor(ms / 1000) % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export const clock = (ms) => (ms ? new Date(ms).toTimeString().slice(0, 8) : "");
// Made when it is used first: the browser's first format costs as much as the whole page.
let date = null;
export function day(ms) {
  if (!ms) return "";
  if (new Date(ms).toDateString() === new Date().toDateString()) return clock(ms);
  date ||= new Intl.DateTimeFormat([], { month: "short", day: "numeric" });
  return `${date.format(ms)}, ${clock(ms)}`;
}

// Holders get the six colours in turn, so that the first six differ.
const hues = new Map();
export function hue(holder) {
  if (!hues.has(holder)) hues.set(holder, `h${hues.size % 6}`);
  return hues.get(holder);
}

export const gapLength = (gap, now) => (gap.to ? gap.ms : now - gap.from);
const recent = (history, now) => history.gaps.filter((gap) => (gap.to || now) >= now - DAY);
export const longestGap = (history, now) =>
  recent(history, now).reduce(
    (most, gap) => (most && gapLength(most, now) >= gapLength(gap, now) ? most : gap),
    null,
  );

const box = (traits, words) => el("svg:rect", traits, el("svg:title", {}, words));

// The last 24 hours of a name: who led, and in red when nobody did.
export function strip(history, now) {
  const start = now - DAY;
  const x = (ms) => Math.max(0, Math.min(1440, (ms - start) / 60000));
  const svg = el("svg:svg", { viewBox: "0 0 1440 20", preserveAspectRatio: "none", role: "img" });
  const words = [];
  // Before the record begins nothing is known, which is not the same as nobody.
  const since = x(history.since || 0);
  svg.append(
    el("svg:rect", { class: "unknown", x: 0, y: 9, width: since, height: 2 }),
    el("svg:rect", { class: "none", x: since, y: 6, width: 1440 - since, height: 8 }),
  );
  for (const term of history.terms) {
    const to = term.to || now;
    if (to < start) continue;
    svg.append(
      box(
        {
          class: hue(term.holder),
          x: x(term.from),
          y: 4,
          height: 12,
          width: Math.max(1, x(to) - x(term.from)),
        },
        `${term.holder}, token ${term.token}, ${day(term.from)} to ${term.to ? day(to) : "now"}`,
      ),
    );
  }
  for (const gap of recent(history, now)) {
    const to = gap.to || now;
    const length = gapLength(gap, now);
    // A gap of a hand-over must not look like one of a crash.
    const brief = length < BRIEF;
    const wide = Math.max(brief ? 3 : 6, x(to) - x(gap.from));
    svg.append(
      box(
        {
          class: brief ? "gap brief" : "gap",
          x: Math.min(x(gap.from), 1440 - wide),
          y: brief ? 4 : 0,
          height: brief ? 12 : 20,
          width: wide,
        },
        `nobody for ${span(length)}: ${gap.cause}, ${day(gap.from)}`,
      ),
    );
    words.push(`${span(length)} ${gap.cause}`);
  }
  svg.setAttribute(
    "aria-label",
    `Last 24 hours: ${history.terms.length} terms, gaps: ${words.join(", ") || "none"}`,
  );
  return svg;
}

// The gaps of the day by their lengths, from a millisecond to the day; each ten times as long is as
// much higher.
export function chart(history, now, width) {
  const start = now - DAY;
  const gaps = recent(history, now);
  const svg = el("svg:svg", {
    viewBox: `0 0 ${width} 124`,
    role: "img",
    "aria-label": `${gaps.length} gaps in the last 24 hours`,
  });
  const y = (ms) => 104 - 12.5 * Math.log10(Math.max(1, Math.min(DAY, ms)));
  for (const [ms, words] of [
    [1000, "1 s"],
    [60000, "1 min"],
    [3600000, "1 h"],
  ]) {
    svg.append(
      el("svg:line", { x1: 44, x2: width, y1: y(ms), y2: y(ms) }),
      el("svg:text", { x: 0, y: y(ms) + 4 }, words),
    );
  }
  for (let hour = 0; hour <= 24; hour += width < 500 ? 12 : 6) {
    svg.append(
      el(
        "svg:text",
        {
          x: 44 + (hour * (width - 44)) / 24,
          y: 118,
          "text-anchor": hour === 24 ? "end" : "start",
        },
        hour === 24 ? "now" : `${24 - hour} h ago`,
      ),
    );
  }
  for (const gap of gaps) {
    const length = gapLength(gap, now);
    svg.append(
      box(
        {
          class: "gap",
          x: Math.min(44 + (Math.max(0, gap.from - start) / DAY) * (width - 44), width - 8),
          width: 8,
          y: y(length),
          height: Math.max(2, 104 - y(length)),
        },
        `${span(length)}: ${gap.cause}, ${day(gap.from)}`,
      ),
    );
  }
  return svg;
}
