// browser.mjs - a fresh Chromium and a `tenure sandbox` for it, for tests and pictures.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync } from "node:fs";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function findChromium() {
  return ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));
}

// modules: the folder in which npm installed playwright-core.
export async function launch(modules) {
  const { chromium } = createRequire(`${modules}/package.json`)("playwright-core");
  return chromium.launch({ executablePath: findChromium(), args: FLAGS });
}

// Serves the page; resolves to its address and a function that ends it.
export async function serve(tenure) {
  const child = spawn(tenure, ["sandbox"], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((resolve, reject) => {
    child.once("exit", (status) => reject(new Error(`tenure sandbox ended with status ${status}`)));
    child.stdout.once("data", (data) => resolve(String(data).trim()));
  });
  return {
    url,
    end: () =>
      new Promise((resolve) => {
        child.removeAllListeners("exit");
        child.once("exit", resolve);
        child.kill("SIGTERM");
      }),
  };
}

// A page whose script has started; notes everything that should not happen.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 980 }, ...options });
  const page = await context.newPage();
  page.wrongs = [];
  page.requests = [];
  page.on("pageerror", (error) => page.wrongs.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      page.wrongs.push(`${message.type()}: ${message.text()}`);
  });
  page.on("request", (request) => page.requests.push(request.url()));
  await page.goto(url);
  await page.waitForSelector("body[data-ready]", { timeout: 60000 });
  return page;
}
