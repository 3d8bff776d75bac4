// same.mjs - what the browser runs is what `tenure sim` runs, byte by byte. Needs no browser.
//
// usage: node same.mjs TENURE BUILD/web

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { Engine } from "../../web/engine.js";

const [tenure, web] = process.argv.slice(2);
const engine = await Engine.from(readFileSync(`${web}/sandbox.wasm`));
const run = promisify(execFile);
let passed = 0;
let failed = 0;

async function native(script) {
  try {
    return (await run(tenure, ["sim", "--script", script], { maxBuffer: 1 << 28 })).stdout;
  } catch (error) {
    if (error.code === 1) return error.stdout; // A promise was broken.
    return `exit ${error.code}: ${error.stderr}`;
  }
}

function inWasm(script) {
  try {
    return engine.open(script) === 0 ? engine.transcript() : "refused";
  } catch (error) {
    return `error: ${error.message}`;
  }
}

// The first line that differs says more than two hashes.
function difference(script, left, right) {
  const [a, b] = [left.split("\n"), right.split("\n")];
  const at = a.findIndex((line, i) => line !== b[i]);
  return `${script}\n  native ${a[at]}\n  wasm   ${b[at]}`;
}

async function compare(name, scripts) {
  const wrong = [];
  let bytes = 0;
  const queue = [...scripts];
  await Promise.all(
    [0, 1].map(async () => {
      for (let script = queue.shift(); script !== undefined; script = queue.shift()) {
        const expected = await native(script);
        const got = inWasm(script);
        bytes += got.length;
        if (expected !== got || got.length < 100) wrong.push(difference(script, expected, got));
      }
    }),
  );
  if (wrong.length === 0) passed++;
  else failed++;
  console.log(
    wrong.length === 0
      ? `ok ${name}: ${scripts.length} runs, ${bytes} bytes`
      : `FAIL ${name}\n${wrong.slice(0, 3).join("\n")}`,
  );
}

// Any acts that a page could write, from a small generator of its own: the same on every run.
function randomScripts(count) {
  let state = 12345;
  const below = (n) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const spans = ["pause", "freeze", "suspend", "cut", "cutto", "cutfrom"];
  const plain = ["crash", "start", "mend", "resign", "campaign", "unready", "ready"];
  const store = [
    "revoke",
    "backup",
    "restore",
    () => `restart:${500 + below(9000)}`,
    () => `hang:${500 + below(5000)}`,
    () => `lose:${1 + below(300)}`,
    () => `rate:store:${below(200001) - 100000}`,
  ];
  const act = () => {
    const who = ["a", "b", "c", "leader"][below(4)];
    const kind = below(10);
    if (kind < 4) return `${spans[below(spans.length)]}:${who}:${100 + below(30000)}`;
    if (kind < 7) return `${plain[below(plain.length)]}:${who}`;
    if (kind < 8) return `rate:${who}:${below(600001) - 300000}`;
    const words = store[below(store.length)];
    return typeof words === "string" ? words : words();
  };
  return Array.from({ length: count }, () => {
    const head = [
      `nodes=${3 + below(3)}`,
      `ttl=${[1000, 3000, 15000][below(3)]}`,
      `style=${["queue", "watch", "observed"][below(3)]}`,
      `seed=${1 + below(1e6)}`,
      `fence=${["on", "off"][below(2)]}`,
      "end=60000",
    ];
    const acts = Array.from(
      { length: 1 + below(12) },
      () => `${below(50000)}.${below(1000)}:${act()}`,
    );
    return [...head, ...acts].join("+");
  });
}

const { stories, plants } = engine.catalogue;
const only = process.env.TENURE_SAME; // One part of it.
await compare(
  "13 stories",
  stories.map((story) => `story=${story.name}`),
);
if (only === "stories") process.exit(failed > 0 ? 1 : 0);
await compare(
  "200 seeds",
  Array.from({ length: 200 }, (_, i) => `history=${i + 1}`),
);
await compare(
  "every planted bug",
  plants.flatMap((plant) => [1, 2].map((seed) => `history=${seed}+plant=${plant.name}`)),
);
await compare("100 random scripts", randomScripts(100));

// Every planted bug breaks its promise in the page too.
const missed = plants.filter((plant) => {
  for (let seed = 1; seed <= 3000; seed++) if (engine.breaks(plant.n, seed)) return false;
  return true;
});
if (stories.length === 13 && plants.length >= 70 && missed.length === 0) passed++;
else failed++;
console.log(
  `${plants.length - missed.length} of ${plants.length} planted bugs found within 3,000 seeds; ` +
    `missed: ${missed.map((p) => p.name).join(" ") || "none"}`,
);

console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed > 0 ? 1 : 0);
