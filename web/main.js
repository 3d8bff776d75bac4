// main.js - the page: which script is open, which instant is looked at, and what the keys do.

import { loadEngine } from "./engine.js";
import { Script, fromHash, toHash } from "./script.js";
import { $, StageView, el } from "./stage.js";
import { LanesView } from "./lanes.js";
import { ActsPanel } from "./acts.js";
import { RulesPanel } from "./rules.js";
import { renderExperiments, renderQuestions } from "./teach.js";

const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const FIRST = ["renew", "crash", "pause-and-fence"];
const FREE = "nodes=5";
const SLOW_MS = 900; // On the screen, for a message that matters.
const FLIGHT_MS = 350; // On the screen, for any other.
const STEP_MS = 700; // On the screen, for a line, with reduced motion.
const LINES_MOST = 400;
const storyLabel = (name) =>
  ({ renew: "acquire and renew", crash: "leader crash" })[name] || name.replaceAll("-", " ");

class App {
  constructor(engine) {
    this.engine = engine;
    this.script = new Script(FREE);
    this.good = FREE; // The script that is on the stage; Tenure refuses some.
    this.at = 0;
    this.playing = false;
    this.hidden = false;
    this.chosen = "a";
    this.past = [];
    this.stage = new StageView(
      $("stage"),
      (i) => this.choose(this.seen.nodes[i].id),
      (n) => this.loseMessage(n),
    );
    this.lanes = new LanesView($("lanes-drawing"), (ms) => this.pauseAt(ms));
    this.acts = new ActsPanel(this);
    this.rules = new RulesPanel(this);
    this.exercise = null; // The experiment or question that is on the stage.
  }

  // --- Opening a script ---

  open(text, at = 0, { keepPast = false, hidden = false, exercise = null } = {}) {
    let status;
    try {
      status = this.engine.open(text);
    } catch (error) {
      this.toast(error.message);
      this.engine.open(this.good);
      return false;
    }
    if (!keepPast) this.past = [];
    this.script = new Script(text);
    this.hidden = hidden;
    this.exercise = exercise;
    const history = this.engine.history();
    this.plan = history.plan;
    if (status === 0) {
      this.good = text;
      this.history = history;
      this.end = history.end / 1000;
      this.prepareRun();
    } else {
      this.engine.open(this.good);
    }
    this.refused = status !== 0;
    this.showFrame();
    this.seek(at);
    return true;
  }

  prepareRun() {
    const wrong = new Set(this.history.writes.filter((w) => w[3] !== 0).map((w) => w[0]));
    let asked = false;
    this.messages = this.history.messages.map(([sent, arrives, node, name, token, n]) => {
      const first = !asked && name.startsWith("acquire");
      if (first && name.endsWith("reply")) asked = true;
      return {
        sent: sent / 1000,
        arrives: (arrives < 0 ? sent + this.plan.net : arrives) / 1000,
        lost: arrives < 0,
        node,
        name,
        token,
        n,
        matters:
          first ||
          arrives < 0 ||
          /^(granted|revoked|release|raise)/.test(name) ||
          (name === "write" && wrong.has(arrives)),
      };
    });
    this.lines = this.history.lines.map(([at, text]) => {
      const [, who, said, bar] = /^\[[^\]]*\] (\S+)\s+(.*?)\s*(\[[.#|-]+\])?$/.exec(text) || [
        0,
        "",
        text,
        "",
      ];
      return { at: at / 1000, who, said, bar };
    });
    this.instants = [
      ...new Set([
        0,
        this.end,
        ...this.lines.map((l) => l.at),
        ...this.messages.flatMap((m) => [m.sent, m.arrives]),
        ...this.history.lanes.map((l) => l[0] / 1000),
      ]),
    ]
      .filter((at) => at <= this.end)
      .sort((a, b) => a - b);
    this.labels = this.look(0).nodes.map((node) => node.id);
    this.lanes.marks = this.script.acts().map((act) => act.at);
  }

  // Everything that depends on the script but not on the instant.
  showFrame() {
    const history = this.script.get("history");
    this.showTitle(history);
    const pressed = history || this.exercise ? null : this.script.get("story") || "";
    for (const chip of document.querySelectorAll("[data-story]"))
      chip.setAttribute("aria-pressed", String(chip.dataset.story === pressed));
    $("fence").checked = this.script.get("fence") !== "off";
    this.rules.showPlant();
    this.rules.show();
    this.lanes.draw(this.history, this.labels, this.hidden);
    $("scrub").max = String(this.end);
    this.showTrace();
    $("legend").replaceChildren(
      el("span", { class: "key margin" }, "margin: a holder stops at the red mark"),
      el("span", { class: "key past" }, "past its deadline"),
      el("span", { class: "key asleep" }, "asleep"),
      el("span", { class: "key gap" }, "nobody leads"),
      el("span", { class: "key wrong" }, "write refused or harmful"),
      "No two clocks agree; nothing compares them.",
    );
    $("script-line").textContent = String(this.script);
    $("command").textContent =
      `tenure sim --script '${String(this.script).replaceAll("'", "'\\''")}'`;
    $("undo").disabled = this.past.length === 0;
  }

  showTitle(history) {
    const story = this.catalogueStory();
    const [title, subtitle] = this.exercise
      ? [this.exercise.title, this.exercise.ask]
      : story
        ? [storyLabel(story.name), story.title]
        : history
          ? [
              `History of seed ${history}`,
              `What chance did, up to the broken promise; its name is ${this.history.name}`,
            ]
          : ["Free play", "Crash, freeze, cut and slow whatever you like; time is yours"];
    $("title").textContent = title;
    $("subtitle").textContent = subtitle;
  }

  catalogueStory() {
    const name = this.script.get("story");
    return this.engine.catalogue.stories.find((story) => story.name === name);
  }

  // --- The instant ---

  seek(ms) {
    this.at = Math.max(0, Math.min(ms, this.end));
    this.seen = this.look(this.at);
    this.render();
    clearTimeout(this.hashTimer);
    this.hashTimer = setTimeout(() => this.saveHash(), 150);
  }

  // Of a herd, five are enough.
  look(ms) {
    const seen = this.engine.look(ms);
    if (this.history.nodes > 7) seen.nodes.length = 5;
    return seen;
  }

  saveHash() {
    clearTimeout(this.hashTimer);
    history.replaceState(null, "", toHash(this.script, this.at));
  }

  pauseAt(ms) {
    this.setPlaying(false);
    this.seek(ms);
  }

  flights() {
    const exact = this.seen.messages.map((m) => ({
      ...m,
      exact: true,
      share: (this.at * 1000 - m.sent) / Math.max(1, m.arrives - m.sent),
    }));
    if (!this.playing || STILL.matches || this.slowed) return exact;
    // Too quick to be seen at this speed: drawn behind the times.
    const lasts = FLIGHT_MS * this.speed();
    return this.messages
      .filter((m) => m.sent <= this.at && this.at < m.sent + lasts)
      .map((m) => ({ ...m, share: (this.at - m.sent) / lasts }));
  }

  render() {
    this.stage.draw(this.seen, this.chosen, this.flights(), this.history.nodes);
    this.lanes.move(this.at);
    $("scrub").value = String(this.at);
    $("scrub").setAttribute("aria-valuetext", `${(this.at / 1000).toFixed(3)} seconds`);
    $("now").textContent = `${(this.at / 1000).toFixed(3)} s`;
    this.showCaption();
    this.showVerdict();
    this.acts.show();
    this.markTrace();
  }

  lineIndex() {
    let low = 0;
    for (let high = this.lines.length; low < high;) {
      const middle = (low + high) >> 1;
      if (this.lines[middle].at <= this.at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  showCaption() {
    const line = this.lines[this.lineIndex()];
    const words = (l) => [
      ...(["--", "end"].includes(l.who) ? [] : [el("b", { class: "id" }, l.who), " "]),
      this.named(l.said),
    ];
    // A broken promise stands above the stage.
    const same = this.lines
      .slice(0, this.lineIndex() + 1)
      .filter((l) => l.at === line.at && l.who !== "CHECK")
      .slice(-3);
    $("caption").replaceChildren(
      line
        ? el(
            "span",
            {},
            el("b", {}, `${(line.at / 1000).toFixed(3)} s`),
            ...same.flatMap((l, i) => [i ? "; " : " ", ...words(l)]),
          )
        : "Press play, or step with the arrow keys.",
    );
  }

  showVerdict() {
    const { violation, resource } = this.seen;
    const plant = this.engine.catalogue.plants.find((p) => p.name === this.script.get("plant"));
    const story = this.history.story;
    let kind = "";
    let words = [];
    if (this.refused) {
      kind = "bad";
      words = this.rules.refusal();
    } else if (violation) {
      kind = "bad";
      words = [
        el("b", {}, `${violation.promise} is broken: `),
        ...this.lettered(this.named(violation.text)),
        ". ",
        violation.assumption
          ? "Not by the code: a clock runs outside of \u03c1, and every lease rests on that bound."
          : plant
            ? `By the planted bug: ${plant.wrong}.`
            : "",
      ];
    } else if (resource.harmed > 0) {
      kind = "bad";
      words = [
        el("b", {}, "Harm done. "),
        "A leader of the past has overwritten newer work: nobody looked at its token.",
      ];
    } else if (resource.refused > 0) {
      kind = "good";
      words = [
        el("b", {}, "Refused. "),
        "The write carried an old token, and the fence let it do no harm.",
      ];
    }
    if (story && !this.refused && !violation && this.seen.ended && story.came_true) {
      kind = kind || "good";
      words = [el("b", {}, "The moral. "), this.catalogueStory().moral];
    }
    const result = this.exercise?.result;
    if (result && this.seen.ended) {
      kind = result.right ? "good" : "warn";
      words = [el("b", {}, result.head), result.text];
    }
    const box = $("verdict");
    const text = words.map((w) => w.textContent ?? w).join("");
    box.hidden = kind === "";
    box.className = kind;
    if (box.dataset.text !== text) {
      box.dataset.text = text;
      box.replaceChildren(...words);
    }
  }

  // Letters before a token, so that none is read as an article.
  lettered(text) {
    return text
      .split(/\b([a-z])(?= \(token)/)
      .map((part, i) => (i % 2 ? el("b", { class: "id" }, part) : part));
  }

  // The checkers count candidates from 0; the page knows them by letter. The name of the lease is
  // no word of the sentence.
  named(text) {
    const letter = (number) => this.labels[number] ?? `n${number}`;
    return text
      .replace(/\breport\b/g, "\u201creport\u201d")
      .replace(/\bnodes? (\d+)/g, (_, n) => letter(n))
      .replace(/ and (\d+) \(token/g, (_, n) => ` and ${letter(n)} (token`)
      .replace(
        /off by (-?)(\d+) ppm/g,
        (_, minus, ppm) => `${ppm / 10000} % ${minus ? "slow" : "fast"}`,
      );
  }

  // --- Playing ---

  speed() {
    return Number($("speed").value);
  }

  setPlaying(on) {
    if (on && this.at >= this.end) this.seek(0);
    if (on && this.hidden) {
      this.hidden = false;
      this.showFrame();
    }
    this.playing = on;
    this.slowed = false;
    $("play").textContent = on ? "\u2016" : "\u25b6";
    $("play").setAttribute("aria-label", on ? "Pause" : "Play");
    if (on) {
      this.lastFrame = performance.now();
      requestAnimationFrame((now) => this.frame(now));
    } else {
      this.stage.draw(this.seen, this.chosen, this.flights(), this.history.nodes);
    }
  }

  frame(now) {
    if (!this.playing) return;
    const wall = Math.min(100, now - this.lastFrame);
    if (STILL.matches && now - this.lastFrame < STEP_MS) {
      requestAnimationFrame((later) => this.frame(later)); // A step at a time in place of motion.
      return;
    }
    this.lastFrame = now;
    const before = this.lineIndex();
    this.seek(STILL.matches ? this.nextLine() : this.advance(wall));
    this.say(before);
    if (this.at >= this.end) this.setPlaying(false);
    else requestAnimationFrame((later) => this.frame(later));
  }

  nextLine() {
    const line = this.lines[this.lineIndex() + 1];
    return line ? line.at : this.end;
  }

  // A message that matters is never jumped over, and takes its time on the screen.
  advance(wall) {
    const then = this.at + wall * this.speed();
    this.slowed = false;
    if (!$("slow").checked) return then;
    const flying = this.messages.find((m) => m.matters && m.sent <= this.at && this.at < m.arrives);
    if (flying) {
      this.slowed = true;
      return Math.min(flying.arrives, this.at + (wall * (flying.arrives - flying.sent)) / SLOW_MS);
    }
    const next = this.messages.find((m) => m.matters && m.sent > this.at && m.sent <= then);
    return next ? next.sent : then;
  }

  // Only what a listener must not miss.
  say(before) {
    const said = this.lines
      .slice(before + 1, this.lineIndex() + 1)
      .filter((line) => /^leads |^lost |REFUSED|harm done|is broken/.test(line.said))
      .map((line) => `${line.who} ${line.said}`);
    if (said.length > 0) $("live").textContent = said.join(". ");
  }

  step(direction) {
    const list = this.instants;
    const near = 1e-6;
    const to =
      direction > 0
        ? list.find((at) => at > this.at + near)
        : list.findLast((at) => at < this.at - near);
    const before = this.lineIndex();
    this.pauseAt(to ?? (direction > 0 ? this.end : 0));
    if (direction > 0) this.say(before);
  }

  // --- The text ---

  showTrace() {
    const from = Math.max(0, this.lines.length - LINES_MOST);
    this.traceFrom = from;
    $("trace").classList.toggle("secret", this.hidden);
    $("trace").replaceChildren(
      ...this.lines.slice(from).map((line) => {
        const kind = /is broken|harm done/.test(line.said)
          ? "bad"
          : /^leads |^refuses/.test(line.said)
            ? "lead"
            : /^lost |jeopardy|REFUSED/.test(line.said)
              ? "warn"
              : line.who === "--"
                ? "told"
                : "";
        return el(
          "li",
          { class: kind },
          el(
            "button",
            { type: "button", onclick: () => this.pauseAt(line.at) },
            el("time", {}, (line.at / 1000).toFixed(3)),
            el("b", {}, line.who === "--" ? "" : line.who),
            el("span", {}, this.named(line.said)),
          ),
        );
      }),
    );
    this.marked = -2;
  }

  markTrace() {
    const index = this.lineIndex() - this.traceFrom;
    if (index === this.marked) return;
    const rows = $("trace").children;
    for (let i = 0; i < rows.length; i++) rows[i].classList.toggle("ahead", i > index);
    if (rows[this.marked]) rows[this.marked].classList.remove("current");
    this.marked = index;
    const row = rows[index];
    if (!row) return;
    row.classList.add("current");
    const box = $("trace");
    if (
      row.offsetTop < box.scrollTop ||
      row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight
    )
      box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }

  // --- Breaking things ---

  choose(id) {
    this.chosen = id;
    this.render();
  }

  // Past acts can be taken back; what lies ahead of an act is dropped.
  change(edit) {
    const text = String(this.script);
    const script = new Script(this.script.get("history") ? FREE : text);
    const dropped = edit(script);
    if (this.open(String(script), this.at, { keepPast: true })) {
      this.past.push(text);
      $("undo").disabled = false;
      if (dropped > 0)
        this.toast(
          `The past has changed: ${dropped} later act${dropped > 1 ? "s were" : " was"} dropped. ` +
            "Undo brings them back.",
        );
    }
  }

  act(words) {
    if (!words) return;
    this.setPlaying(false);
    if (words === "wake") this.change((script) => (script.wake(this.at, this.chosen), 0));
    else this.change((script) => script.act(this.at, words));
  }

  loseMessage(number) {
    this.setPlaying(false);
    this.change((script) =>
      script.act(this.seen.messages.find((m) => m.n === number).sent / 1000, `lose:${number}`),
    );
  }

  // Another script from its beginning; undo brings this one back.
  replace(text) {
    const before = String(this.script);
    if (!this.open(text, 0, { keepPast: true })) return;
    if (before !== text) this.past.push(before);
    $("undo").disabled = this.past.length === 0;
  }

  undo() {
    if (this.past.length === 0) return;
    const past = this.past;
    const text = past.pop();
    if (this.open(text, this.at, { keepPast: true })) this.past = past;
    $("undo").disabled = this.past.length === 0;
  }

  // --- For experiments ---

  // A run beside the one on the stage, to its end.
  measure(script) {
    this.engine.open(script);
    const history = this.engine.history();
    const last = this.engine.look(1e9);
    this.engine.open(this.good);
    return { history, last };
  }

  // Before the first act, with the future hidden.
  prepare(script, exercise) {
    const first = new Script(script).acts().find((act) => act.at > 0);
    this.setPlaying(false);
    this.open(script, first.at - 1, { hidden: true, exercise });
  }

  reveal(script, at, exercise = null) {
    const before = String(this.script) === script ? this.at : 0;
    this.setPlaying(false);
    if (!this.open(script, Math.min(at ?? before, 1e9), { exercise })) return;
    if (at === undefined && !STILL.matches) this.setPlaying(true);
    $("told").scrollIntoView({ block: "nearest", behavior: STILL.matches ? "auto" : "smooth" });
  }

  toast(text) {
    $("toast").textContent = text;
    $("toast").hidden = false;
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => {
      $("toast").hidden = true;
    }, 5000);
  }

  // --- Wiring ---

  async copyLink() {
    this.saveHash();
    try {
      await navigator.clipboard.writeText(location.href);
      this.toast("The link is copied. It holds the script and the instant.");
    } catch {
      this.toast("The address of this page is the link.");
    }
  }

  wireStories() {
    const chip = (story, label, title) =>
      el(
        "button",
        {
          type: "button",
          title,
          "data-story": story,
          onclick: () => {
            this.setPlaying(false);
            this.replace(story ? `story=${story}` : FREE);
          },
        },
        label,
      );
    const { stories } = this.engine.catalogue;
    const group = (text) => el("span", { class: "group" }, text);
    const chips = (list) => list.map((s) => chip(s.name, storyLabel(s.name), s.title));
    $("stories").append(
      group("Start here"),
      ...chips(FIRST.map((name) => stories.find((s) => s.name === name))),
      group("or"),
      chip("", "free play", "five processes, and you"),
    );
    $("more").append(...chips(stories.filter((s) => !FIRST.includes(s.name))));
    $("rest").open = innerWidth > 720;
  }

  wireControls() {
    $("first").onclick = () => this.pauseAt(0);
    $("back").onclick = () => this.step(-1);
    $("forth").onclick = () => this.step(1);
    $("play").onclick = () => this.setPlaying(!this.playing);
    $("scrub").oninput = () => this.pauseAt(Number($("scrub").value));
    $("link").onclick = () => this.copyLink();
    $("keys").onclick = () => {
      $("help").hidden = !$("help").hidden;
      $("keys").setAttribute("aria-expanded", String(!$("help").hidden));
    };
    $("undo").onclick = () => this.undo();
    $("clear").onclick = () =>
      this.replace(this.script.get("story") ? `story=${this.script.get("story")}` : FREE);
    $("fence").onchange = () =>
      this.change((script) => (script.set("fence", $("fence").checked ? null : "off"), 0));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.length === 1 && event.key !== " " && !$("single").checked) return;
    // A control keeps the keys that it has a use for itself.
    if (event.target.closest("select")) return;
    if (event.target.closest("input") && !/^[a-z0-9-]$/.test(event.key)) return;
    if (event.key === " " && event.target.closest("button, summary")) return;
    const far = event.shiftKey ? 1000 : 0;
    const acts = {
      " ": () => this.setPlaying(!this.playing),
      ArrowLeft: () => (far ? this.pauseAt(this.at - far) : this.step(-1)),
      ArrowRight: () => (far ? this.pauseAt(this.at + far) : this.step(1)),
      Home: () => this.pauseAt(0),
      End: () => this.pauseAt(this.end),
      z: () => this.undo(),
      f: () => this.replace(FREE),
      s: () => this.choose("store"),
      l: () => {
        const last = this.seen.messages.findLast((m) => !m.lost);
        if (last) this.loseMessage(last.n);
      },
    };
    if (acts[event.key]) acts[event.key]();
    else if (this.labels.includes(event.key)) this.choose(event.key);
    else if (!this.acts.key(event.key)) return;
    event.preventDefault();
  }

  wire() {
    this.wireStories();
    this.rules.wire();
    this.wireControls();
    renderExperiments($("experiments"), this);
    renderQuestions($("questions"), this);
    $("slow").checked = !STILL.matches;
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.openAddress());
    new ResizeObserver(() => {
      this.lanes.draw(this.history, this.labels, this.hidden);
      this.render();
    }).observe($("told"));
  }

  openAddress() {
    const link = fromHash(location.hash);
    return link !== null && this.open(link.script, link.at);
  }
}

async function begin() {
  const app = new App(await loadEngine());
  app.engine.open(FREE);
  app.history = app.engine.history();
  app.plan = app.history.plan;
  app.end = app.history.end / 1000;
  app.prepareRun();
  app.seen = app.look(0);
  app.wire();
  if (!app.openAddress()) app.open("story=pause-and-fence", 27003);
  document.body.dataset.ready = "yes";
  window.sandbox = app; // For tests, and for whoever opens the console.
}

begin().catch((error) => {
  const box = $("verdict");
  box.hidden = false;
  box.className = "bad";
  box.textContent = `The sandbox cannot start: ${error.message}`;
});
