// lanes.js - the run as lanes: who leads when, who sleeps, every write. It is the scrubber as well.

import { svg, tokenClass } from "./stage.js";

const LABEL = 64;
const ROW = 24;
const GAP = 4;
const AXIS = 22;

// Changes of lanes as spans: [node, from, to, state, token, asleep, holder]; node -1 is the store.
export function spansOf(history) {
  const open = new Map();
  const spans = [];
  const close = (was, at) => {
    if (at > was.from) spans.push({ ...was, to: at });
  };
  for (const [at, node, state, token, asleep, holder] of history.lanes) {
    if (open.has(node)) close(open.get(node), at);
    open.set(node, { node, from: at, state, token, asleep, holder });
  }
  for (const was of open.values()) close(was, history.end);
  return spans;
}

// Real time without a valid term, between terms: [from, to] in microseconds.
export function gapsOf(history) {
  const terms = spansOf(history)
    .filter((span) => span.node >= 0 && span.state === "l")
    .sort((a, b) => a.from - b.from);
  const gaps = [];
  let until = terms.length > 0 ? terms[0].to : 0;
  for (const term of terms) {
    if (term.from > until) gaps.push([until, term.from]);
    until = Math.max(until, term.to);
  }
  return gaps;
}

function tickStep(end, most) {
  return [1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((step) => end / 1e6 / step <= most) || 1200;
}

export class LanesView {
  constructor(drawing, seek) {
    this.drawing = drawing;
    this.seek = seek;
    const drag = (event) => {
      if (event.buttons === 0 && event.type === "pointermove") return;
      const box = this.drawing.getBoundingClientRect();
      const share = (event.clientX - box.left - LABEL) / (box.width - LABEL - 8);
      this.seek((Math.max(0, Math.min(1, share)) * this.history.end) / 1000);
    };
    drawing.addEventListener("pointerdown", (event) => {
      drawing.setPointerCapture(event.pointerId);
      drag(event);
    });
    drawing.addEventListener("pointermove", drag);
  }

  place(us) {
    return LABEL + ((this.width - LABEL - 8) * us) / this.history.end;
  }

  // Draws all of it once; move() only moves the present.
  draw(history, labels, hidden) {
    this.history = history;
    this.width = Math.max(280, this.drawing.parentElement.clientWidth);
    const rows = ["store", ...labels, "writes"];
    const height = rows.length * (ROW + GAP) + AXIS;
    this.drawing.setAttribute("width", this.width);
    this.drawing.setAttribute("height", height);
    const all = [...this.axis(height)];
    rows.forEach((row, i) => {
      const text = svg("text", { class: "lane-label", x: 0, y: i * (ROW + GAP) + ROW / 2 + 4 });
      text.textContent = row;
      all.push(
        text,
        svg("rect", {
          class: "lane",
          x: LABEL,
          y: i * (ROW + GAP),
          width: this.width - LABEL - 8,
          height: ROW,
          rx: 3,
        }),
      );
    });
    const named = new Map(); // The token that a lane last showed by number.
    for (const span of spansOf(history).sort((a, b) => a.from - b.from)) {
      all.push(...this.span(span, named.get(span.node) !== span.token));
      named.set(span.node, span.token);
    }
    for (const [from, to] of gapsOf(history)) all.push(this.gap(from, to));
    for (const write of history.writes) all.push(this.write(write, rows.length - 1));
    for (const at of this.marks || []) all.push(this.mark(at));
    this.veil = svg("rect", {
      class: hidden ? "veil hidden" : "veil",
      y: 0,
      height: height - AXIS,
    });
    this.line = svg("line", { class: "present", y1: 0, y2: height - AXIS + 6 });
    // The numbers lie on the veil, or the future's could not be read.
    this.tokens = all.filter((it) => it.getAttribute("class") === "lane-token");
    this.drawing.replaceChildren(...all, this.veil, ...(hidden ? [] : this.tokens), this.line);
  }

  axis(height) {
    const step = tickStep(this.history.end, Math.min(12, (this.width - LABEL) / 40));
    const made = [];
    for (let at = 0; at * 1e6 <= this.history.end; at += step) {
      const x = this.place(at * 1e6);
      const text = svg("text", { class: "tick-label", x, y: height - 5 });
      text.textContent = at === 0 ? "0 s" : String(at);
      made.push(svg("line", { class: "tick", x1: x, x2: x, y1: 0, y2: height - AXIS + 4 }), text);
    }
    return made;
  }

  rect(from, to, row, kind, inset = 0) {
    const x = this.place(from);
    return svg("rect", {
      class: kind,
      x,
      y: row * (ROW + GAP) + inset,
      width: Math.max(1, this.place(to) - x),
      height: ROW - inset,
      rx: inset ? 0 : 3,
    });
  }

  span({ node, from, to, state, token, asleep }, fresh) {
    const row = node + 1;
    const made = [];
    if (state === "d") made.push(this.rect(from, to, row, "is-down"));
    else if (state === "l" || (node < 0 && token))
      made.push(this.rect(from, to, row, `is-term ${tokenClass(token)}`));
    else if (state === "b" || state === "w")
      made.push(this.rect(from, to, row, `is-past ${tokenClass(token)}`));
    if (token && fresh && to - from > this.history.end / 40 && state !== "d") {
      const text = svg("text", {
        class: "lane-token",
        x: this.place(from) + 6,
        y: row * (ROW + GAP) + 16,
      });
      text.textContent = String(token);
      if (state === "l" || node < 0) made.push(text);
    }
    if (asleep && state !== "d") made.push(this.rect(from, to, row, "is-asleep", ROW - 7));
    return made;
  }

  gap(from, to) {
    return this.rect(from, to, 0, "is-gap", ROW - 4);
  }

  write([at, , token, verdict], row) {
    const kind = verdict === 0 ? `write ${tokenClass(token)}` : "write wrong";
    const x = this.place(at);
    const inset = verdict === 0 ? 6 : 0;
    return svg("rect", {
      class: kind,
      x: x - (verdict ? 1.5 : 1),
      y: row * (ROW + GAP) + inset,
      width: verdict ? 4 : 2,
      height: ROW - 2 * inset,
    });
  }

  mark(at) {
    const x = this.place(at * 1000);
    return svg("path", { class: "act-mark", d: `M${x - 5} 0h10l-5 7z` });
  }

  move(ms) {
    const x = Math.min(this.place(ms * 1000), this.width - 8);
    this.line.setAttribute("x1", x);
    this.line.setAttribute("x2", x);
    for (const it of this.tokens) it.classList.toggle("ahead", it.getAttribute("x") > x);
    this.veil.setAttribute("x", x);
    this.veil.setAttribute("width", Math.max(0, this.width - 8 - x));
  }
}
