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

// Pages since the last look at them.
export const opened = [];

// What a page did that it should not: errors, warnings, and requests to another origin.
export function wrongsOf(page) {
  const home = page.requests[0].replace(/^(https?:\/\/[^/]*\/|file:).*/, "$1");
  const away = page.requests.filter((url) => !url.startsWith(home) && !url.startsWith("data:"));
  return [...page.wrongs, ...away.map((url) => `request: ${url}`)];
}

// A page whose script has started, as @ready shows; notes everything that should not happen.
export async function openPage(browser, url, options = {}, ready = "body[data-ready]") {
  const context = await browser.newContext({ viewport: { width: 1360, height: 980 }, ...options });
  const page = await context.newPage();
  opened.push(page);
  page.wrongs = [];
  page.requests = [];
  page.on("pageerror", (error) => page.wrongs.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      page.wrongs.push(`${message.type()}: ${message.text()}`);
  });
  page.on("request", (request) => page.requests.push(request.url()));
  await page.goto(url);
  await page.waitForSelector(ready, { timeout: 60000 });
  return page;
}

// The texts of a page with less contrast than WCAG's AA asks for. Disabled controls do not count,
// and drawings have their own colours.
export const lowContrast = (page) =>
  page.evaluate(() => {
    const canvas = document.createElement("canvas");
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      return [r, g, b, a / 255];
    };
    const over = (top, below) =>
      [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const light = (colour) => {
      const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      const [r, g, b] = colour.slice(0, 3).map((v) => linear(v / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = new Set();
    for (const e of document.querySelectorAll("body *")) {
      const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim() !== "");
      if (!own || !e.checkVisibility() || e.closest("svg, :disabled, .unseen, .skip")) continue;
      const line = [];
      for (let it = e; it; it = it.parentElement) line.unshift(getComputedStyle(it));
      const below = line.reduce((so, it) => over(rgba(it.backgroundColor), so), [255, 255, 255, 1]);
      const ink = rgba(getComputedStyle(e).color);
      ink[3] *= line.reduce((so, it) => so * Number(it.opacity), 1);
      const [high, low] = [light(over(ink, below)), light(below)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      const large = parseFloat(getComputedStyle(e).fontSize) >= 24;
      if (ratio < (large ? 3 : 4.5))
        found.add(`${e.tagName}.${e.className} ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
    }
    return [...found];
  });
