// same.mjs - what the browser runs is what `tenure sim` runs, byte by byte. Needs no browser.
//
// usage: node same.mjs TENURE BUILD/web

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { Engine } from "../../web/engine.js";
import { comparedScripts } from "./scripts.mjs";

const [tenure, web] = process.argv.slice(2);
const engine = await Engine.from(readFileSync(`${web}/sandbox.bin`));
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

const { stories, plants } = engine.catalogue;
const only = process.env.TENURE_SAME; // One part of it.
for (const [name, scripts] of comparedScripts(engine)) {
  await compare(name, scripts);
  if (only === "stories") process.exit(failed > 0 ? 1 : 0);
}

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
