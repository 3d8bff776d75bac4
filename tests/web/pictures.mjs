// pictures.mjs - the pictures of the documents: `make screenshots`.
//
// usage: node pictures.mjs BUILD MODULES FOLDER PORT PORT

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { elect, endAll, tenured, until } from "./actors.mjs";
import { launch, openPage, serve } from "./browser.mjs";

const [build, modules, folder, ...ports] = process.argv.slice(2);
const tenure = `${build}/tenure`;
const run = promisify(execFile);
const DESKTOP = { width: 1360, height: 1010 };
const PHONE = { width: 390, height: 844 };
const pictures = [
  {
    name: "sandbox-light",
    script: "story=pause-and-fence",
    at: 27003,
    viewport: DESKTOP,
    colorScheme: "light",
  },
  {
    name: "sandbox-dark",
    script: "story=drift+plant=no-margin",
    at: 19100,
    viewport: DESKTOP,
    colorScheme: "dark",
  },
  {
    name: "sandbox-phone-light",
    script: "nodes=5+9000:freeze:a:22000+fence=off",
    at: 31010,
    viewport: PHONE,
    colorScheme: "light",
  },
  {
    name: "sandbox-phone-dark",
    script: "story=pause-and-fence",
    at: 27006,
    viewport: PHONE,
    colorScheme: "dark",
  },
];

const browser = await launch(modules);
const served = await serve(tenure);
for (const { name, script, at, viewport, colorScheme } of pictures) {
  const page = await openPage(browser, `${served.url}#1/${at}/${script}`, {
    viewport,
    colorScheme,
  });
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.context().close();
}
await served.end();

/* --- The console ------------------------------------------------------------------------------ */

const MINUTE = 60000;
const HOUR = 60 * MINUTE;

// A day, as a daemon that ran through it has it on record; the terms are made up. The last of each
// name goes on: with the token that @tokens has for the name.
function yesterday(tokens) {
  const now = Date.now();
  const lines = [{ since: now - 70 * HOUR }];
  let token = 1;
  const day = (name, terms) => {
    let from = now - 26 * HOUR;
    for (const [holder, hours, ended, gap] of terms) {
      if (hours === undefined) {
        const goes = { name, token: tokens[name], holder, ttl_ms: 15000, from };
        lines.push({ ...goes, to: null, ended: null });
        continue;
      }
      const to = Math.round(from + hours * HOUR);
      token += 1;
      const silent = ended === "expired" ? 15000 : 0;
      const line = { name, token, holder, ttl_ms: 15000, from, to: to + silent, ended };
      lines.push(silent ? { ...line, heard: to } : line);
      from = to + gap;
    }
  };
  day("jobs/backup", [
    ["web-2.ams", 9.2, "expired", 16214],
    ["web-1.fra", 8.1, "released", 42],
    ["web-3.iad"],
  ]);
  day("jobs/index/rebuild", [
    ["web-3.iad", 4.4, "released", 51],
    ["web-2.ams", 7.3, "gone", 212],
    ["web-1.fra"],
  ]);
  day("jobs/mailer", [
    ["web-1.fra", 6.3, "released", 35],
    ["web-2.ams", 6.8, "released", 19 * MINUTE],
    ["web-1.fra", 3.2, "revoked", 2140],
    ["web-3.iad"],
  ]);
  day("jobs/sync/eu", [
    ["web-2.ams", 13.7, "expired", 15480],
    ["web-3.iad"],
  ]);
  day("jobs/sync/us", [
    ["web-1.fra", 17.5, "gone", 4120],
    ["web-2.ams"],
  ]);
  return `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`;
}

const data = mkdtempSync(`${tmpdir()}/tenure-pictures-`);
mkdirSync(`${data}/d/data`, { recursive: true, mode: 0o700 });
let daemon = await tenured(build, `${data}/d`, ...ports);
// Tokens go on from the made-up day.
await new Promise((resolve) => {
  const socket = connect(`${data}/d/socket`, () => socket.end("TOKEN RAISE 20\r\n"));
  socket.on("data", () => {}).on("close", resolve);
});
const tokens = {};
const candidates = {};
for (const [name, id] of [
  ["jobs/backup", "web-3.iad"],
  ["jobs/index/rebuild", "web-1.fra"],
  ["jobs/mailer", "web-3.iad"],
  ["jobs/sync/eu", "web-3.iad"],
  ["jobs/sync/us", "web-2.ams"],
]) {
  candidates[name] = elect(build, daemon.store, name, id, "15s");
  tokens[name] = JSON.parse((await candidates[name].line(/"won"/)).text).token;
}
// The holders keep their terms over the restart, and the terms began hours ago.
await daemon.end();
writeFileSync(`${data}/d/data/history`, yesterday(tokens), { mode: 0o600 });
daemon = await tenured(build, `${data}/d`, ...ports);
for (const id of ["web-1.fra", "web-2.ams"])
  await elect(build, daemon.store, "jobs/mailer", id, "15s").line(/"leader"/);
// It renews, then it is silent, and nobody follows it: a crash. Silent since before the restart, it
// would be the store that was gone.
const back = Date.now();
await until(async () => {
  const words = ["status", "-s", daemon.store, "--json", "jobs/sync/us"];
  const { renewed_ago_ms: ago } = JSON.parse((await run(tenure, words)).stdout);
  return Date.now() - ago > back + 1000;
}, "jobs/sync/us is not renewed");
candidates["jobs/sync/us"].child.kill("SIGSTOP");
const { page: url } = daemon;
for (const { name, path, viewport, colorScheme, ready } of [
  { name: "console-light", path: "", viewport: { width: 1360, height: 620 }, colorScheme: "light" },
  {
    name: "console-dark",
    path: "#/name/jobs/mailer",
    viewport: { width: 1360, height: 960 },
    colorScheme: "dark",
    ready: ".line li",
  },
  { name: "console-phone-light", path: "", viewport: PHONE, colorScheme: "light" },
  {
    name: "console-phone-dark",
    path: "#/name/jobs/mailer",
    viewport: PHONE,
    colorScheme: "dark",
    ready: ".line li",
  },
]) {
  const page = await openPage(browser, `${url}${path}`, { viewport, colorScheme });
  const crashed = 'tr:has-text("jobs/sync/us"):has-text("crash") .nobody';
  await page.waitForSelector(ready || crashed, { timeout: 60000 });
  await page.waitForSelector("svg rect.gap", { state: "attached" });
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.context().close();
}
await endAll();
rmSync(data, { recursive: true });
await browser.close();
