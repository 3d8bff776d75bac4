// stage.js - draws one instant: the store, the processes, the resource, and messages that fly.
// Cards are HTML, so that they read, wrap and zoom like text; only wires and messages are drawn.

const SVG = "http://www.w3.org/2000/svg";
const TOKEN_COLOURS = 6;

export const $ = (id) => document.getElementById(id);

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function svg(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function seconds(us, digits = 1) {
  return `${(us / 1e6).toFixed(digits)} s`;
}

export function tokenClass(token) {
  return token > 0 ? `tok${(token - 1) % TOKEN_COLOURS}` : "";
}

function percent(ppm) {
  const off = (ppm - 1e6) / 1e4;
  return `${off > 0 ? "+" : "\u2212"}${Math.abs(off)} %`;
}

// What a process does, in a few words.
function roleOf(node) {
  if (!node.up) return "down";
  if (node.asleep && node.told) return "believes it leads";
  if (node.valid && node.claim === "draining") return "leads, hands over";
  if (node.valid) return node.session === "jeopardy" ? "leads, renewal overdue" : "leads";
  if (node.told) return "past its deadline";
  if (node.working) return "lost; its work is stopping";
  if (node.session !== "live" && node.session !== "jeopardy") return "opens a session";
  if (!node.ready) return "not ready";
  if (node.claim === "raising") return "raises the fence";
  if (node.claim === "acquiring") return "asks for the lease";
  if (node.waits) return "waits in the queue";
  return node.claim === "releasing" ? "gives it back" : "stands by";
}

// The bar spans one TTL. The fill ends at the left: at the mark the holder stops, at the very end
// the store gives the lease away.
function barOf(left, ttl, margin, token, label) {
  const bar = el("div", { class: `bar ${tokenClass(token)}`, role: "img", "aria-label": label });
  const share = (part) => `${Math.max(0, Math.min(100, (100 * part) / ttl))}%`;
  const fill = el("i", { class: "fill" });
  fill.style.width = left > 0 ? share(left + margin) : "0";
  bar.append(fill);
  if (margin > 0) {
    const zone = el("i", { class: "zone" });
    zone.style.width = share(margin);
    bar.append(zone);
  }
  return bar;
}

function chip(text, kind = "") {
  return el("span", { class: `chip ${kind}` }, text);
}

function fillStore(place, seen) {
  const { store } = seen;
  const held = store.holder !== "";
  const title = !store.up
    ? "The store is down"
    : held
      ? `${store.holder} has the lease`
      : "the lease is free";
  place.className = `place ${store.up ? tokenClass(held ? store.token : 0) : "down"}`;
  place.replaceChildren(
    el(
      "div",
      { class: "top" },
      el("b", {}, "Store"),
      el("span", { class: "role" }, title),
      held ? chip(`token ${store.token}`, `token ${tokenClass(store.token)}`) : "",
    ),
    barOf(
      held ? store.left : 0,
      store.ttl || 1,
      0,
      held ? store.token : 0,
      `${seconds(store.left)} left on the store's clock`,
    ),
    el(
      "div",
      { class: "foot" },
      el("span", {}, held ? `${seconds(store.left)} left on its clock` : "nobody to wait for"),
      el(
        "span",
        {},
        store.waiting > 0
          ? `queue: ${store.queue.join(" ")}${store.waiting > store.queue.length ? " \u2026" : ""}`
          : "queue: empty",
      ),
      el("span", { class: "clock" }, `its own clock: ${seconds(store.clock)}`),
    ),
    el("div", { class: "notes" }, ...storeNotes(store)),
  );
}

function storeNotes(store) {
  const notes = [];
  if (!store.up) notes.push(chip("restarts", "warn"));
  if (store.asleep) notes.push(chip("stopped", "warn"));
  if (store.revoked) notes.push(chip("revoked", "warn"));
  if (store.backup) notes.push(chip("has a backup"));
  if (store.rate !== 1e6) notes.push(chip(`clock ${percent(store.rate)}`, "warn"));
  return notes;
}

function nodeNotes(node) {
  const notes = [];
  if (node.asleep) notes.push(chip(node.how === "frozen" ? "frozen in a write" : node.how, "warn"));
  if (node.cut_to && node.cut_from) notes.push(chip("cut off", "warn"));
  else if (node.cut_to) notes.push(chip("its requests are cut", "warn"));
  else if (node.cut_from) notes.push(chip("its replies are cut", "warn"));
  if (node.up && !node.ready) notes.push(chip("not ready"));
  if (node.rate !== 1e6) notes.push(chip(`clock ${percent(node.rate)}`, "warn"));
  return notes;
}

function fillNode(card, node, messages) {
  const live = node.up && node.ttl > 0;
  const state = !node.up ? "down" : node.valid ? "leads" : node.told ? "believes" : "";
  const asleep = node.asleep ? "asleep" : "";
  const left = node.told
    ? `${seconds(node.left)} to its deadline`
    : `session: ${seconds(node.left)} left`;
  card.className = `node ${state} ${asleep} ${tokenClass(node.told ? node.token : 0)}`;
  card.replaceChildren(
    el(
      "span",
      { class: "top" },
      el("b", {}, node.id),
      node.told ? chip(`token ${node.token}`, `token ${tokenClass(node.token)}`) : "",
    ),
    el("span", { class: "role" }, roleOf(node)),
    barOf(
      live ? node.left : 0,
      node.ttl || 1,
      live && (node.told || node.left > 0) ? node.ttl - node.d : 0,
      node.told ? node.token : 0,
      left,
    ),
    el(
      "span",
      { class: "foot" },
      el(
        "span",
        {},
        !live
          ? ""
          : node.left > 0
            ? left
            : node.told
              ? "its deadline is over"
              : "no session",
      ),
      el("span", { class: "clock" }, node.up ? `its own clock: ${seconds(node.clock)}` : ""),
    ),
    el(
      "span",
      { class: "notes" },
      ...nodeNotes(node),
      ...messages.map((m) =>
        chip(`${m.lost ? "lost: " : "under way: "}${messageText(m)}`, "message"),
      ),
    ),
  );
}

function messageText(message) {
  return message.name === "write" || message.name === "granted"
    ? `${message.name}, token ${message.token}`
    : message.name;
}

function fillResource(place, seen) {
  const { resource } = seen;
  place.className = `place ${resource.harmed ? "harmed" : ""}`;
  place.replaceChildren(
    el(
      "div",
      { class: "top" },
      el("b", {}, "Resource"),
      el("span", { class: "role" }, resource.fenced ? "behind a fence" : "without a fence"),
      resource.highest
        ? chip(
            `${resource.fenced ? "at" : "last"} token ${resource.highest}`,
            `token ${tokenClass(resource.highest)}`,
          )
        : "",
    ),
    el(
      "div",
      { class: "counts" },
      el("span", {}, el("b", {}, String(resource.accepted)), " writes taken"),
      el(
        "span",
        { class: resource.refused ? "good" : "" },
        el("b", {}, String(resource.refused)),
        " refused",
      ),
      el(
        "span",
        { class: resource.harmed ? "bad" : "" },
        el("b", {}, String(resource.harmed)),
        " harmful",
      ),
    ),
  );
}

export class StageView {
  constructor(root, choose, lose) {
    this.root = root;
    this.wires = root.querySelector("#wires");
    this.nodes = root.querySelector("#nodes");
    this.lose = lose;
    this.choose = choose;
    this.cards = [];
  }

  ensureCards(count) {
    while (this.cards.length > count) this.cards.pop().remove();
    while (this.cards.length < count) {
      const index = this.cards.length;
      const card = el("button", { type: "button", onclick: () => this.choose(index) });
      this.cards.push(card);
      this.nodes.append(card);
    }
    this.nodes.dataset.count = String(count);
  }

  // Of a herd.
  tellMore(more) {
    if (!this.more) this.more = el("span", { class: "more" });
    this.more.textContent = `and ${more} more that wait`;
    if (more > 0) this.nodes.append(this.more);
    else this.more.remove();
  }

  draw(seen, chosen, flights, all) {
    this.ensureCards(seen.nodes.length);
    this.tellMore(all - seen.nodes.length);
    fillStore(this.root.querySelector("#store"), seen);
    fillResource(this.root.querySelector("#resource"), seen);
    seen.nodes.forEach((node, i) => {
      fillNode(
        this.cards[i],
        node,
        seen.messages.filter((m) => m.node === i),
      );
      this.cards[i].setAttribute("aria-pressed", String(chosen === node.id));
    });
    this.drawWires(seen, flights);
  }

  // Where wires end: middle of an edge, relative to the stage.
  anchor(element, side, share = 0.5) {
    const all = this.root.getBoundingClientRect();
    const box = element.getBoundingClientRect();
    return {
      x: box.left - all.left + box.width * share,
      y: (side === "top" ? box.top : box.bottom) - all.top,
    };
  }

  drawWires(seen, flights) {
    const box = this.root.getBoundingClientRect();
    this.wires.replaceChildren();
    if (getComputedStyle(this.wires).display === "none") return;
    this.wires.setAttribute("width", box.width);
    this.wires.setAttribute("height", box.height);
    const count = seen.nodes.length;
    const ends = seen.nodes.map((node, i) => {
      const share = 0.2 + (0.6 * (i + 0.5)) / count;
      const up = [
        this.anchor(this.cards[i], "top"),
        this.anchor(this.root.querySelector("#store"), "bottom", share),
      ];
      const down = [
        this.anchor(this.cards[i], "bottom"),
        this.anchor(this.root.querySelector("#resource"), "top", share),
      ];
      this.wire(up, node.cut_to || node.cut_from ? "wire cut" : "wire");
      this.wire(down, "wire");
      return { up, down };
    });
    for (const flight of flights) this.flight(flight, ends[flight.node]);
  }

  wire([from, to], kind) {
    this.wires.append(svg("line", { class: kind, x1: from.x, y1: from.y, x2: to.x, y2: to.y }));
  }

  flight(flight, ends) {
    if (!ends) return;
    const [node, other] =
      flight.name === "write" || flight.name.startsWith("raise") ? ends.down : ends.up;
    const back =
      flight.name.endsWith("reply") || ["granted", "revoked", "changed"].includes(flight.name);
    const [from, to] = back ? [other, node] : [node, other];
    const share = flight.lost ? Math.min(flight.share, 0.55) : flight.share;
    const x = from.x + (to.x - from.x) * share;
    const y = from.y + (to.y - from.y) * share;
    const kind = flight.lost ? "lost" : flight.exact ? "exact" : "";
    const group = svg("g", {
      class: `flight ${kind} ${tokenClass(flight.token)}`,
    });
    const dot = svg("circle", { cx: x, cy: y, r: 7 });
    const label = svg("text", { x: x + 12, y: y + 4 });
    label.textContent = `${messageText(flight)}${flight.lost ? ", lost" : ""}`;
    group.append(dot, label);
    if (flight.lost) group.append(svg("path", { d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` }));
    else if (flight.exact) group.addEventListener("click", () => this.lose(flight.n));
    this.wires.append(group);
  }
}
