// teach.js - experiments and questions. An answer is measured on a run each time; none is written
// here.

import { el } from "./stage.js";

const GAPS = ["nobody notices", "less than 1 s", "1 to 5 s", "5 to 15 s", "more than 15 s"];

function gapIndex(run) {
  const most = run.last.gap / 1e6;
  return most === 0 ? 0 : most < 1 ? 1 : most < 5 ? 2 : most < 15 ? 3 : 4;
}

function gapText(run) {
  return run.last.gap === 0
    ? "There was a leader all the time."
    : `${(run.last.gap / 1e6).toFixed(3)} s without a leader.`;
}

const gapRead = (run) => ({ index: gapIndex(run), text: gapText(run) });
const keepRead = (run) => ({
  index: run.last.terms === 1 ? 0 : 1,
  text: run.last.terms === 1 ? "One term, to the end." : `${run.last.terms} terms; ${gapText(run)}`,
});
const writeRead = (run) => ({
  index: run.last.resource.harmed ? 2 : run.last.resource.refused ? 1 : 0,
  text: `${run.last.resource.refused} refused, ${run.last.resource.harmed} harmful.`,
});
const overlapRead = (run) => ({
  index: run.last.violation ? 1 : 0,
  text: run.last.violation
    ? `${run.last.violation.promise} is broken: ${run.last.violation.text}.`
    : `The next one led ${(run.last.gap / 1e6).toFixed(3)} s after the old one had stopped.`,
});

const DRIFT = "nodes=2+0:rate:a:-100000+0:rate:store:100000+7000:cutto:a:30000+end=26000";
const WRITES = ["it is taken, no harm", "it is refused", "it is taken, and does harm"];

export const experiments = [
  {
    ask: "TTL 15 s. The leader crashes. For how long does nobody lead?",
    script: "nodes=5+9000:crash:leader+end=40000",
    options: GAPS,
    read: gapRead,
  },
  {
    ask: "TTL 3 s. The leader crashes. For how long does nobody lead?",
    script: "nodes=5+ttl=3000+9000:crash:leader+end=20000",
    options: GAPS,
    read: gapRead,
  },
  {
    ask: "TTL 15 s. A follower crashes. For how long does nobody lead?",
    script: "nodes=5+9000:crash:c+end=40000",
    options: GAPS,
    read: gapRead,
  },
  {
    ask: "TTL 15 s. The leader resigns. For how long does nobody lead?",
    script: "nodes=5+9000:resign:leader+end=40000",
    options: GAPS,
    read: gapRead,
  },
  {
    ask: "The leader is paused for 4 s, TTL 15 s. Does it keep its term?",
    script: "nodes=3+9000:pause:leader:4000+end=40000",
    options: ["it keeps it", "it loses it"],
    read: keepRead,
  },
  {
    ask: "The leader is paused for 4 s, TTL 3 s. Does it keep its term?",
    script: "nodes=3+ttl=3000+9000:pause:leader:4000+end=25000",
    options: ["it keeps it", "it loses it"],
    read: keepRead,
  },
  {
    ask: "The leader freezes for 22 s between the check of its token and a write. And the write?",
    script: "nodes=5+9000:freeze:leader:22000+end=40000",
    options: WRITES,
    read: writeRead,
  },
  {
    ask: "The same freeze, and the resource has no fence. What becomes of the write?",
    script: "nodes=5+fence=off+9000:freeze:leader:22000+end=40000",
    options: WRITES,
    read: writeRead,
  },
  {
    ask: "The slowest holder and the fastest store in \u03c1; renewals stop. Do two lead at once?",
    script: DRIFT,
    options: ["never", "yes"],
    read: overlapRead,
  },
  {
    ask: "The same clocks, and the holder trusts the whole TTL. Do two lead at once?",
    script: `${DRIFT}+plant=no-margin`,
    options: ["never", "yes"],
    read: overlapRead,
  },
  {
    ask: "The leader is cut off from the store for 20 s. What comes first?",
    script: "nodes=3+9000:cut:leader:20000+end=45000",
    options: ["the old leader stops", "the next one leads"],
    read: overlapRead,
  },
];

// Each question is answered by several runs; show is the one to look at.
export const questions = [
  {
    ask: "A leader is stopped right after it looked at its token. What keeps its late write out?",
    options: ["its own clock", "the TTL", "the fence at the resource"],
    show: "nodes=3+fence=off+9000:freeze:leader:22000+end=36000",
    read(measure) {
      const harm = (more) =>
        measure(`nodes=3+9000:freeze:leader:22000+end=36000${more}`).last.resource.harmed;
      const [plain, shorter, off] = [harm(""), harm("+ttl=3000+fence=off"), harm("+fence=off")];
      return {
        index: plain === 0 && shorter > 0 && off > 0 ? 2 : 1,
        text: `Harmful writes with a fence: ${plain}; without: ${off}, and ${shorter} at TTL 3 s.`,
      };
    },
  },
  {
    ask: "What makes the next one lead sooner after a crash?",
    options: ["a shorter TTL", "more candidates", "a faster network"],
    show: "nodes=3+ttl=3000+9000:crash:leader+end=20000",
    read(measure) {
      const gap = (start) => measure(`${start}+9000:crash:leader+end=40000`).last.gap / 1e6;
      const base = gap("nodes=3");
      const gaps = [gap("nodes=3+ttl=3000"), gap("nodes=7"), gap("nodes=3+net=1")];
      return {
        index: gaps.indexOf(Math.min(...gaps)),
        text:
          `Without a leader for ${base.toFixed(1)} s; with each change ` +
          `${gaps.map((g) => `${g.toFixed(1)} s`).join(", ")}.`,
      };
    },
  },
  {
    ask: "A clock runs 30 % slow where \u03c1 allows 10 %, and two lead at once. What failed?",
    options: ["the code", "the assumption about clocks", "the fence"],
    show: "nodes=2+0:rate:a:-300000+7000:cutto:a:30000+end=30000",
    read(measure) {
      const { last } = measure("nodes=2+0:rate:a:-300000+7000:cutto:a:30000+end=30000");
      return {
        index: last.violation && last.violation.assumption ? 1 : 0,
        text: last.violation
          ? `${last.violation.promise} rests on \u03c1. Harmful writes: ${last.resource.harmed}.`
          : "Nothing was broken.",
      };
    },
  },
];

// A fieldset with choices, and what follows from one. judge returns {index, text}; the stage shows
// the result of the exercise at the end of the run, as the fieldset may have scrolled away.
function quiz({ ask, options, exercise }, name, buttons, onChoose, judge) {
  const result = el("p", { class: "result", role: "status" });
  const set = el("fieldset", {}, el("legend", {}, ask));
  const row = el("div", { class: "options" });
  let chosen = -1;
  const act = el(
    "button",
    {
      type: "button",
      disabled: true,
      onclick: () => {
        const { index, text } = judge();
        const right = index === chosen;
        result.className = `result ${right ? "right" : "wrong"}`;
        const head = right ? "\u2713 As predicted: " : "\u2717 Not as predicted: ";
        exercise.result = { right, head, text: `${options[index]}. ${text}` };
        result.textContent = head + exercise.result.text;
      },
    },
    buttons,
  );
  options.forEach((option, i) => {
    const input = el("input", {
      type: "radio",
      name,
      onchange: () => {
        chosen = i;
        act.disabled = false;
        result.textContent = "";
        onChoose();
      },
    });
    row.append(el("label", {}, input, el("span", {}, option)));
  });
  set.append(row, el("div", { class: "row" }, act), result);
  return set;
}

// Runs it on the stage, and reads the answer from the run.
function answer(app, { script, exercise }, read) {
  exercise.result = null;
  app.reveal(script, undefined, exercise);
  const { index, text } = read();
  return { index, text: app.named(text) };
}

export function renderExperiments(root, app) {
  experiments.forEach((experiment, i) => {
    const { ask, options, script, read } = experiment;
    const exercise = { title: `Experiment ${i + 1}`, ask };
    const box = el("details", { class: "quiz" }, el("summary", {}, `${i + 1}. ${ask}`));
    box.append(
      quiz(
        { ask: "Your prediction", options, exercise },
        `experiment-${i}`,
        "Run it",
        () => app.prepare(script, exercise),
        () => answer(app, { script, exercise }, () => read(app.measure(script))),
      ),
    );
    root.append(box);
  });
}

export function renderQuestions(root, app) {
  questions.forEach(({ ask, options, show, read }, i) => {
    const exercise = { title: `Question ${i + 1}`, ask };
    root.append(
      quiz(
        { ask: `${i + 1}. ${ask}`, options, exercise },
        `question-${i}`,
        "Show me",
        () => {},
        () =>
          answer(app, { script: show, exercise }, () => read((script) => app.measure(script))),
      ),
    );
  });
}
