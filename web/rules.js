// rules.js - the numbers as sliders, both inequalities live, and the bugs that ignore a rule.

import { $, el, seconds } from "./stage.js";

const SEEDS_MOST = 20000;
const tenths = (ppm) => `${Math.round(ppm / 1e3) / 10} %`;
const SLIDERS = [
  ["ttl", "TTL", 1000, 60000, 500, (v) => seconds(v * 1000), (p) => p.ttl / 1000],
  ["renew", "renew every", 100, 30000, 100, (v) => seconds(v * 1000), (p) => p.renew / 1000],
  ["rho", "clock bound \u03c1", 0, 300000, 5000, tenths, (p) => p.rho],
  ["margin", "margin", 0, 20000, 50, (v) => seconds(v * 1000, 2), (p) => p.margin / 1000],
  ["net", "network delay", 1, 2000, 1, (v) => `${Math.round(v)} ms`, (p) => p.net / 1000],
];

export class RulesPanel {
  constructor(app) {
    this.app = app;
  }

  wire() {
    for (const [key, label, min, max, step] of SLIDERS) {
      const id = `slide-${key}`;
      const input = el("input", { id, type: "range", min, max, step });
      input.oninput = () => {
        this.sliding = true;
        this.app.setPlaying(false);
        this.app.change((script) => (script.set(key, input.value), 0));
        this.sliding = false;
      };
      $("sliders").append(
        el(
          "div",
          { class: "slider" },
          el("label", { for: id }, label),
          input,
          el("output", { id: `value-${key}`, for: id }),
        ),
      );
    }
    this.wirePlants();
  }

  showSliders() {
    const { plan, script } = this.app;
    for (const [key, , , , , show, from] of SLIDERS) {
      const input = $(`slide-${key}`);
      const value = from(plan);
      if (document.activeElement !== input || !this.sliding) input.value = String(value);
      const words = show(
        key === "margin" || key === "renew" ? value : Number(script.get(key) ?? value),
      );
      $(`value-${key}`).textContent = words;
      input.setAttribute("aria-valuetext", words);
    }
  }

  show() {
    const { plan } = this.app;
    this.showSliders();
    const s = (us) => seconds(us, 2);
    const rule = (good, name, text) =>
      el(
        "p",
        { class: `rule ${good ? "good" : "bad"}` },
        el("b", {}, `${good ? "\u2713" : "\u2717"} ${name}`),
        el("span", {}, text),
      );
    const nodes = Number(this.app.script.get("nodes") || this.app.history.nodes);
    $("rules").replaceChildren(
      rule(
        plan.p1[0] <= plan.p1[1],
        "safe",
        `D/(1\u2212\u03c1) = ${s(plan.p1[0])} \u2264 TTL/(1+\u03c1) = ${s(plan.p1[1])}`,
      ),
      rule(
        plan.p8[0] <= plan.p8[1],
        "available",
        `R+To+b+pause = ${s(plan.p8[0])} \u2264 D\u2212K\u2212G = ${s(plan.p8[1])}`,
      ),
      this.app.refused ? el("p", { class: "rule bad" }, ...this.refusal()) : "",
      el(
        "dl",
        { class: "facts" },
        ...[
          ["D, believed for", s(plan.d)],
          ["margin", s(plan.margin)],
          ["failed renewals survived", String(Math.max(0, plan.tolerated))],
          ["next leader after a crash", `\u2264 ${s(plan.crash)}`],
          ["after a resignation", `\u2264 ${s(plan.resign)}`],
          ["renewals per second", (nodes / (plan.renew / 1e6)).toFixed(2)],
        ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
      ),
    );
  }

  // The numbers do not hold; the stage still shows the last ones that did.
  refusal() {
    const { app } = this;
    const button = (words, onclick) => el("button", { type: "button", onclick }, words);
    return [
      el("b", {}, "Tenure refuses to start with these numbers. "),
      app.plan.verdict === "P1"
        ? "The margin is smaller than what the clocks may take: two could lead at once. "
        : "There is no time for a second renewal: one lost message would cost the term. ",
      button("See why", () => this.seeWhy()),
      " ",
      button("Put it back", () => app.open(app.good, app.at)),
    ];
  }

  seeWhy() {
    const { rho, verdict } = this.app.plan;
    const off = `${rho / 10000} %`;
    this.app.reveal(
      verdict === "P1"
        ? `nodes=2+rho=${rho}+plant=no-margin+0:rate:a:-${rho}=the clock of a is ${off} slow` +
            `+0:rate:store:${rho}=the clock of the store is ${off} fast` +
            "+7000:cutto:a:30000=the renewals of a get lost+end=30000"
        : "nodes=2+plant=renew-once+4000:cutto:a:1500=one renewal gets lost+end=40000",
    );
  }

  // --- Planted bugs ---

  wirePlants() {
    const { app } = this;
    $("plant").append(
      el("option", { value: "" }, "the code as it is"),
      ...app.engine.catalogue.plants.map((p) =>
        el("option", { value: p.name }, `${p.name} (${p.promise})`),
      ),
    );
    $("plant").onchange = () => {
      $("plant-status").textContent = "";
      app.change((script) => (script.set("plant", $("plant").value || null), 0));
    };
    $("plant-show").onclick = () => this.showBreak();
  }

  chosenPlant() {
    return this.app.engine.catalogue.plants.find((p) => p.name === $("plant").value);
  }

  showPlant() {
    $("plant").value = this.app.script.get("plant") || "";
    const plant = this.chosenPlant();
    $("plant-about").textContent = plant
      ? `${plant.wrong[0].toUpperCase()}${plant.wrong.slice(1)}. It breaks ${plant.promise}.`
      : `${this.app.engine.catalogue.plants.length} mistakes that a lease library can make. ` +
        "Pick one and see what it breaks.";
    $("plant-show").hidden = !plant;
  }

  // A story that shows it, or else a seed.
  async showBreak() {
    const { app } = this;
    const plant = this.chosenPlant();
    const status = $("plant-status");
    for (const story of app.engine.catalogue.stories.filter((st) => st.name !== "herd")) {
      const script = `story=${story.name}+plant=${plant.name}`;
      const { last } = app.measure(script);
      if (last.violation && last.violation.promise === plant.promise) {
        status.textContent = `The story ${story.name} shows it.`;
        app.reveal(script, last.violation.at / 1000);
        return;
      }
    }
    for (let seed = 1; seed <= SEEDS_MOST; seed++) {
      if (app.engine.breaks(plant.n, seed)) {
        status.textContent = `No story shows it; the random history of seed ${seed} does.`;
        app.reveal(`history=${seed}+plant=${plant.name}`, Infinity);
        return;
      }
      if (seed % 20 === 0) {
        status.textContent = `Looking for a history that shows it: seed ${seed}\u2026`;
        await new Promise((done) => setTimeout(done));
        if ($("plant").value !== plant.name) return;
      }
    }
    status.textContent = `Not found in ${SEEDS_MOST} seeds.`;
  }
}
