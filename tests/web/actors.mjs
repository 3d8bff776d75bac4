// actors.mjs - daemons, consoles and candidates for the tests and pictures of the console.

import { execFile, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { promisify } from "node:util";

const run = promisify(execFile);
const children = new Set();
process.on("exit", () => children.forEach((actor) => actor.child.kill("SIGKILL")));

// Starts a program; its lines come with the time of their arrival.
export function start(program, args, env = {}) {
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  const actor = { child, lines: [], said: "" };
  let rest = "";
  child.stdout.on("data", (data) => {
    const parts = (rest + data).split("\n");
    rest = parts.pop();
    for (const text of parts) actor.lines.push({ at: Date.now(), text });
  });
  child.stderr.on("data", (data) => {
    actor.said += data;
  });
  actor.ended = new Promise((resolve) => {
    child.once("exit", (status) => {
      children.delete(actor);
      resolve(status);
    });
  });
  // The first line with such a text, from the line @from on.
  actor.line = (pattern, from = 0, ms = 60000) =>
    until(
      () => actor.lines.slice(from).find((line) => pattern.test(line.text)),
      `${program} ${args.join(" ")}: no line like ${pattern}; ${actor.said}`,
      ms,
    );
  actor.end = async (signal = "SIGTERM") => {
    child.kill("SIGCONT");
    child.kill(signal);
    await actor.ended;
  };
  children.add(actor);
  return actor;
}

export async function endAll() {
  await Promise.all([...children].reverse().map((actor) => actor.end("SIGKILL")));
}

export const pause = (ms) =>
  new Promise((go) => {
    setTimeout(go, ms);
  });

// Asks again until it is true; returns what it was.
export async function until(ask, words, ms = 60000) {
  for (const end = Date.now() + ms; Date.now() < end;) {
    const found = await ask();
    if (found) return found;
    await pause(20);
  }
  throw new Error(words);
}

// A candidate, campaigning.
export const elect = (build, store, name, id, ttl, more = []) =>
  start(`${build}/tenure`, ["elect", "-s", store, "-i", id, "--ttl", ttl, ...more, name]);

// A holder without a process that anybody can watch: it renews until it is silenced, and knows when
// it did so for the last time: @heard, from the command's beginning to its end.
export async function probe(build, store, name, id, ttl) {
  const tenure = `${build}/tenure`;
  const stamp = async (args, env = {}) => {
    const from = Date.now();
    const { stdout } = await run(tenure, args, { env: { ...process.env, ...env } });
    it.heard = [from, Date.now()];
    return JSON.parse(stdout);
  };
  const it = { heard: null };
  const got = await stamp(["acquire", "-s", store, "-i", id, "--ttl", ttl, "--json", name]);
  it.token = got.token;
  it.renew = () =>
    stamp(["renew", "-s", store, "-t", String(got.token), "--json", name], {
      TENURE_SECRET: got.secret,
    });
  // Renews until it is silenced.
  let silent = false;
  const renewals = (async () => {
    while (!silent) {
      await pause(300);
      await it.renew();
    }
  })();
  renewals.catch(() => {}); // Whoever silences it hears of that.
  it.silence = async () => {
    silent = true;
    await renewals;
  };
  return it;
}

export async function tenured(build, folder, port, http, more = []) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const daemon = start(`${build}/tenured`, [
    ...["--data", `${folder}/data`, "--listen", `unix:${folder}/socket`],
    ...["--listen", `tcp:127.0.0.1:${port}`, "--http", `127.0.0.1:${http}`, ...more],
  ]);
  await daemon.line(/^tenured ready/);
  daemon.store = `unix:${folder}/socket`;
  daemon.page = `http://127.0.0.1:${http}/`;
  return daemon;
}

export async function tenureConsole(build, store, state) {
  const it = start(`${build}/tenure`, ["console", "-s", store], { XDG_STATE_HOME: state });
  it.page = (await it.line(/^http/)).text;
  return it;
}

// The user's secret, and the line for the ACL.
export async function newUser(build, name) {
  const { stdout, stderr } = await run(`${build}/tenured`, ["--new-secret", name]);
  const text = stdout + stderr;
  return { secret: text.match(/: ([0-9a-f]{32,})/)[1], line: text.match(/^.*(user .*)$/m)[1] };
}
