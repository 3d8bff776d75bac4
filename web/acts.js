// acts.js - what a user may do to a process or to the store. Each button adds an act to the script.

import { $, el } from "./stage.js";

const SPANS = [2, 4, 10, 20, 40]; // Seconds.
const KEYS = "1234567890-";

export class ActsPanel {
  constructor(app) {
    this.app = app;
    this.span = el(
      "select",
      { id: "span" },
      ...SPANS.map((s) => el("option", { value: s * 1000, selected: s === 20 }, `${s} s`)),
    );
  }

  // Label and words of each act; the words are null while it cannot be done.
  list() {
    const { app } = this;
    if (app.script.get("history")) return []; // What chance did stands.
    const node = app.seen.nodes.find((n) => n.id === app.chosen);
    if (app.chosen === "store") return this.ofStore(app.seen.store);
    return node ? this.ofNode(node) : [];
  }

  ofStore(store) {
    const { rho } = this.app.plan;
    const span = this.span.value;
    return [
      ["crash and restart", `restart:${span}`],
      ["stop", `hang:${span}`],
      ["revoke the lease", store.holder ? "revoke" : null],
      store.rate === 1e6
        ? [`clock ${rho / 10000} % fast`, `rate:store:${rho}`]
        : ["clock right again", "rate:store:0"],
      ["make a backup", "backup"],
      ["restore the backup", store.backup ? "restore" : null],
    ];
  }

  ofNode(node) {
    const { rho } = this.app.plan;
    const span = this.span.value;
    const { id } = node;
    const up = (words) => (node.up ? words : null);
    return [
      node.up ? ["crash", `crash:${id}`] : ["start", `start:${id}`],
      node.asleep ? ["wake", "wake"] : ["pause", up(`pause:${id}:${span}`)],
      ["freeze in a write", up(node.valid ? `freeze:${id}:${span}` : null)],
      ["suspend machine", up(`suspend:${id}:${span}`)],
      node.cut_to || node.cut_from
        ? ["mend the link", `mend:${id}`]
        : ["cut off", `cut:${id}:${span}`],
      ["cut its requests", `cutto:${id}:${span}`],
      ["cut its replies", `cutfrom:${id}:${span}`],
      node.rate === 1e6
        ? [`clock ${rho / 10000} % slow`, `rate:${id}:-${rho}`]
        : ["clock right again", `rate:${id}:0`],
      ["clock 30 % slow", `rate:${id}:-300000`],
      node.told ? ["resign", `resign:${id}`] : ["campaign", up(`campaign:${id}`)],
      node.ready || !node.up ? ["not ready", up(`unready:${id}`)] : ["ready", `ready:${id}`],
    ];
  }

  // Whether the key is one of an act.
  key(key) {
    const act = this.list()[KEYS.indexOf(key)];
    if (act) this.app.act(act[1]);
    return !!act;
  }

  show() {
    const { app } = this;
    const ids = [...app.seen.nodes.map((n) => n.id), "store"];
    if (!ids.includes(app.chosen)) app.chosen = ids[0];
    const acts = this.list();
    const state = JSON.stringify([ids, app.chosen, acts.map((a) => a[0] + !!a[1])]);
    if (state !== this.shown) {
      this.shown = state;
      this.showButtons(ids, acts);
    }
    this.showMessages();
  }

  showButtons(ids, acts) {
    const { app } = this;
    const chance = acts.length === 0;
    const button = (attributes, onclick, ...words) =>
      el("button", { type: "button", ...attributes, onclick }, ...words);
    $("who").replaceChildren(
      ...ids.map((id) =>
        button({ "aria-pressed": String(id === app.chosen) }, () => app.choose(id), id),
      ),
    );
    $("acts").replaceChildren(
      chance
        ? el(
            "p",
            { class: "quiet" },
            "A random history plays as it happened. To break things yourself, choose free play.",
          )
        : el("label", { class: "row" }, "What you do lasts ", this.span),
      ...acts.map(([label, words], i) =>
        button(
          { disabled: words === null },
          () => app.act(this.list()[i][1]),
          el("kbd", {}, KEYS[i]),
          ` ${label}`,
        ),
      ),
    );
  }

  showMessages() {
    const { app } = this;
    const under = app.script.get("history") ? [] : app.seen.messages.filter((m) => !m.lost);
    const flying = JSON.stringify(under.map((m) => m.n));
    if (flying === this.flying) return;
    this.flying = flying;
    $("flights").replaceChildren(
      ...under.map((m) =>
        el(
          "button",
          { type: "button", onclick: () => app.loseMessage(m.n) },
          `lose ${m.name} of ${app.labels[m.node]}`,
        ),
      ),
    );
  }
}
