// page.mjs - the sandbox page in a real browser.
//
// usage: node page.mjs TENURE BUILD/web MODULES

import assert from "node:assert/strict";
import { launch, lowContrast, openPage, serve } from "./browser.mjs";

const [tenure, web, modules] = process.argv.slice(2);
const MOST = 90 * 1000; // Bytes that the page may cost.
const browser = await launch(modules);
const served = await serve(tenure);
const at = (script, ms = 0) => `${served.url}#1/${ms}/${script}`;
const tests = [];
const test = (name, body) => tests.push({ name, body });
const seen = (page) => page.evaluate(() => sandbox.seen);

test("opens, asks no other origin, breaks no policy, and costs at most 90 kB", async () => {
  const context = await browser.newContext();
  const fresh = await context.newPage();
  const wrongs = [];
  let bytes = 0;
  const session = await context.newCDPSession(fresh);
  await session.send("Network.enable");
  session.on("Network.loadingFinished", (event) => {
    bytes += event.encodedDataLength;
  });
  session.on("Log.entryAdded", (event) => wrongs.push(event.entry.text));
  await session.send("Log.enable");
  const asked = [];
  fresh.on("request", (request) => asked.push(request.url()));
  fresh.on("pageerror", (error) => wrongs.push(error.message));
  const response = await fresh.goto(served.url);
  await fresh.waitForSelector("body[data-ready]");
  assert.match(response.headers()["content-security-policy"], /default-src 'none'/);
  assert.match(await fresh.textContent("#title"), /pause and fence/);
  await fresh.click("#play");
  await fresh.waitForFunction(() => sandbox.seen.resource.refused === 1, null, { timeout: 60000 });
  assert.deepEqual(wrongs, []);
  for (const url of asked) assert.ok(url.startsWith(served.url) || url.startsWith("data:"), url);
  assert.ok(bytes > 30000 && bytes <= MOST, `${bytes} bytes`);
  console.log(`   ${bytes} bytes transferred, ${asked.length} requests`);
  await context.close();
});

test("every story plays in the page and comes true", async () => {
  const page = await openPage(browser, served.url);
  const names = await page.evaluate(() => sandbox.engine.catalogue.stories.map((s) => s.name));
  assert.equal(names.length, 13);
  for (const name of names) {
    await page.click(`[data-story="${name}"]`);
    await page.evaluate(() => sandbox.pauseAt(sandbox.end));
    assert.match(await page.textContent("#verdict"), /The moral/, name);
    assert.ok((await page.locator("#trace li").count()) > 3, name);
  }
  assert.deepEqual(page.wrongs, []);
});

test("an instant looks the same from the start, from behind and frame by frame", async () => {
  const page = await openPage(
    browser,
    at("nodes=5+9000:freeze:a:22000+15000:cut:b:4000+end=60000"),
  );
  const [start, behind, frames] = await page.evaluate(() => {
    const e = sandbox.engine;
    const snap = (ms) => e.snapshotAt(ms);
    e.open(sandbox.good);
    const first = snap(31003);
    snap(59000);
    const second = snap(31003);
    snap(20000);
    for (let ms = 20000; ms < 31003; ms += 16.7) snap(ms);
    return [first, second, snap(31003)];
  });
  assert.equal(behind, start);
  assert.equal(frames, start);
  assert.match(start, /"name":"write"/);
});

test("drift with no margin shows two leaders and names P1; without the bug neither", async () => {
  const page = await openPage(browser, at("story=drift+plant=no-margin", 19100));
  assert.equal((await seen(page)).leaders, 2);
  assert.equal(await page.locator(".node.leads").count(), 2);
  assert.match(await page.textContent("#verdict"), /P1 is broken: b \(token 2\) and a \(token 1\)/);
  assert.match(await page.textContent("#trace .bad"), /b \(token 2\) and a \(token 1\)/);
  // The bug leaves the margin out, and so the rule does not hold.
  assert.match(await page.textContent("#rules .bad"), /safe.*16\.67 s \u2264.*13\.64 s/);
  await page.selectOption("#plant", "");
  const most = await page.evaluate(() => {
    let leaders = 0;
    for (let ms = 0; ms <= sandbox.end; ms += 5)
      leaders = Math.max(leaders, sandbox.engine.look(ms).leaders);
    sandbox.pauseAt(sandbox.end);
    return leaders;
  });
  assert.equal(most, 1);
  assert.doesNotMatch(await page.textContent("#verdict"), /broken/);
});

test("a freeze in a write: refused 1, harmful 0; without the fence 0 and 1", async () => {
  const page = await openPage(browser, at("nodes=5+9000:freeze:a:22000+end=60000", 40000));
  let { resource } = await seen(page);
  assert.deepEqual([resource.refused, resource.harmed], [1, 0]);
  await page.click("#fence");
  ({ resource } = await seen(page));
  assert.deepEqual([resource.refused, resource.harmed], [0, 1]);
  assert.match(await page.textContent("#verdict"), /Harm done/);
  assert.match(await page.textContent("#resource"), /1 harmful/);
});

test("a copied link opens the same instant of the same script", async () => {
  const page = await openPage(browser, at("nodes=5", 9000));
  await page.keyboard.press("a");
  await page.keyboard.press("3"); // Freeze in a write.
  await page.selectOption("#plant", "no-latch");
  await page.fill("#slide-ttl", "10000");
  await page.evaluate(() => sandbox.pauseAt(21003.25));
  await page.click("#link");
  const snapshot = await page.evaluate(() => sandbox.engine.snapshotAt(sandbox.at));
  const other = await openPage(browser, page.url());
  assert.equal(await other.evaluate(() => sandbox.engine.snapshotAt(sandbox.at)), snapshot);
  assert.match(
    page.url(),
    /#1\/21003\.25\/nodes=5\+9000:freeze:a:20000\+plant=no-latch\+ttl=10000$/,
  );
});

test("free play by keyboard alone", async () => {
  const page = await openPage(browser, served.url);
  await page.keyboard.press("f");
  assert.match(await page.textContent("#title"), /Free play/);
  for (let i = 0; i < 30; i++) await page.keyboard.press("ArrowRight");
  const before = await page.evaluate(() => sandbox.at);
  assert.ok(before > 0);
  await page.keyboard.press("ArrowLeft");
  assert.ok((await page.evaluate(() => sandbox.at)) < before);
  await page.keyboard.press("Home");
  for (let i = 0; i < 9; i++) await page.keyboard.press("Shift+ArrowRight");
  assert.equal(await page.evaluate(() => sandbox.at), 9000);
  await page.keyboard.press("1"); // Crash.
  assert.equal((await seen(page)).nodes[0].up, 0);
  await page.keyboard.press("End");
  assert.equal((await seen(page)).terms, 2);
  assert.equal((await seen(page)).gap, 10858453);
  await page.keyboard.press("Home");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => sandbox.playing && sandbox.at > 20, null, { timeout: 20000 });
  await page.keyboard.press("Space");
  assert.equal(await page.evaluate(() => sandbox.playing), false);
  await page.keyboard.press("z");
  assert.equal(await page.evaluate(() => String(sandbox.script)), "nodes=5");
  await page.keyboard.press("s");
  await page.keyboard.press("5"); // Make a backup.
  assert.match(await page.evaluate(() => String(sandbox.script)), /:backup$/);
  // Everything else is in the order of tabs.
  const reached = new Set();
  for (let i = 0; i < 150; i++) {
    await page.keyboard.press("Tab");
    reached.add(
      await page.evaluate(() => document.activeElement.id || document.activeElement.tagName),
    );
  }
  for (const id of ["play", "scrub", "fence", "plant", "slide-ttl", "slide-net", "undo", "link"])
    assert.ok(reached.has(id), id);
});

test("a message that is lost by a click does not arrive", async () => {
  const page = await openPage(browser, at("nodes=2", 2));
  await page.locator(".flight.exact circle").first().click();
  assert.match(await page.evaluate(() => String(sandbox.script)), /^nodes=2\+0:lose:1$/);
  assert.equal((await seen(page)).messages[0].lost, 1);
});

test("acting in the past drops what came later, and undo brings it back", async () => {
  const page = await openPage(browser, at("nodes=5+9000:crash:a+20000:crash:b", 5000));
  await page.keyboard.press("c");
  await page.keyboard.press("1");
  assert.equal(await page.evaluate(() => String(sandbox.script)), "nodes=5+5000:crash:c");
  assert.match(await page.textContent("#toast"), /2 later acts were dropped/);
  await page.click("#undo");
  assert.equal(
    await page.evaluate(() => String(sandbox.script)),
    "nodes=5+9000:crash:a+20000:crash:b",
  );
});

test("numbers that Tenure refuses say so, and show why", async () => {
  const page = await openPage(browser, at("nodes=3", 8000));
  await page.fill("#slide-margin", "1000");
  assert.match(await page.textContent("#verdict"), /Tenure refuses/);
  assert.match(await page.textContent(".rule.bad"), /15\.56 s \u2264/);
  await page.click("#rules button >> text=Put it back"); // Beside the sliders as well.
  assert.equal(await page.evaluate(() => String(sandbox.script)), "nodes=3");
  await page.fill("#slide-margin", "1000");
  await page.click("#verdict button >> text=See why");
  await page.evaluate(() => sandbox.pauseAt(sandbox.end));
  assert.match(await page.textContent("#verdict"), /P1 is broken/);
});

test("a planted bug is shown by a story, or by a seed", async () => {
  const page = await openPage(browser, at("nodes=3"));
  await page.selectOption("#plant", "fence-backwards");
  await page.click("#plant-show");
  await page.waitForFunction(
    () => /shows it|does\./.test(document.getElementById("plant-status").textContent),
    null,
    { timeout: 60000 },
  );
  assert.match(await page.textContent("#verdict"), /P3 is broken/);
  await page.selectOption("#plant", "dead-waiter");
  await page.click("#plant-show");
  await page.waitForFunction(
    () => /seed \d+ does/.test(document.getElementById("plant-status").textContent),
    null,
    { timeout: 60000 },
  );
  assert.match(await page.textContent("#verdict"), /Q1 is broken/);
  // Nobody acts in what chance did; what is changed starts from free play, and undo leads back.
  const chance = await page.evaluate(() => String(sandbox.script));
  assert.match(chance, /^history=\d+\+plant=dead-waiter$/);
  assert.equal(await page.locator("#acts button, #flights button").count(), 0);
  assert.equal(await page.locator('#stories [aria-pressed="true"]').count(), 0);
  await page.fill("#slide-ttl", "20000");
  assert.equal(await page.evaluate(() => String(sandbox.script)), "nodes=5+ttl=20000");
  await page.keyboard.press("z");
  assert.equal(await page.evaluate(() => String(sandbox.script)), chance);
});

test("experiments and questions are answered by runs", async () => {
  const page = await openPage(browser, served.url);
  const expected = [
    /10\.858 s/,
    /2\.710 s/,
    /leader all the time/,
    /0\.0\d\d s/,
    /One term/,
    /2 terms/,
    /1 refused, 0 harmful/,
    /0 refused, 1 harmful/,
    /0\.0\d\d s after/,
    /P1 is broken/,
    /2\.7\d\d s after/,
  ];
  for (let i = 0; i < expected.length; i++) {
    const box = page.locator("#experiments details").nth(i);
    await box.locator("summary").click();
    await box.locator("input").first().check();
    assert.ok(
      await page.locator(".veil.hidden").count(),
      "the future is hidden during a prediction",
    );
    assert.equal(await page.locator("#trace.secret").count(), 1);
    await box.locator("button").click();
    assert.match(await box.locator(".result").textContent(), expected[i]);
    // The stage says what it shows, and at the end what came of the prediction.
    assert.match(await page.textContent("#title"), new RegExp(`^Experiment ${i + 1}$`));
    await page.evaluate(() => sandbox.pauseAt(sandbox.end));
    assert.match(await page.textContent("#verdict"), expected[i]);
    assert.doesNotMatch(await page.textContent("#verdict"), /\bnodes? \d/);
  }
  const answers = ["the fence at the resource", "a shorter TTL", "the assumption about clocks"];
  for (let i = 0; i < 3; i++) {
    const set = page.locator("#questions fieldset").nth(i);
    await set.locator("label", { hasText: answers[i] }).locator("input").check();
    await set.locator("button").click();
    assert.match(await set.locator(".result").textContent(), /As predicted/);
  }
  assert.deepEqual(page.wrongs, []);
});

test("a leader, a loss and a refusal are said aloud; renewals are not", async () => {
  const page = await openPage(browser, at("story=pause-and-fence", 26999));
  await page.evaluate(() => {
    document.getElementById("live").textContent = "";
  });
  const said = [];
  for (let i = 0; i < 8; i++) {
    await page.keyboard.press("ArrowRight");
    said.push(await page.textContent("#live"));
  }
  assert.ok(
    said.some((text) => /a lost report/.test(text)),
    said.join("|"),
  );
  assert.ok(
    said.some((text) => /REFUSED/.test(text)),
    said.join("|"),
  );
  assert.ok(!said.some((text) => /renewed|waits/.test(text)));
});

test("at 390 px: no sideways scroll, no drawing, no text under 12 px", async () => {
  for (const script of [
    "story=pause-and-fence",
    "nodes=5+9000:cut:a:9000+10000:rate:b:-100000",
    "story=herd",
  ]) {
    const page = await openPage(browser, at(script, 7500), {
      viewport: { width: 390, height: 844 },
    });
    const found = await page.evaluate(() => {
      const small = [];
      for (const e of document.querySelectorAll("body *")) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim() !== "");
        if (own && e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < 12)
          small.push(`${e.tagName} ${e.className}`);
      }
      return {
        wide: document.documentElement.scrollWidth,
        small,
        wires: getComputedStyle(document.getElementById("wires")).display,
        // Top to bottom: what acts on the stage comes right behind it.
        tops: ["told", "break-title", "rules-title", "trace-title", "predict-title"].map(
          (id) => document.getElementById(id).getBoundingClientRect().top,
        ),
      };
    });
    assert.ok(found.wide <= 390, `${found.wide} px wide`);
    assert.deepEqual(found.small, []);
    assert.equal(found.wires, "none");
    assert.deepEqual(
      found.tops,
      found.tops.toSorted((a, b) => a - b),
    );
  }
});

test("text can be read: contrast in light and dark, in every state", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [script, ms] of [
      ["story=pause-and-fence", 27003],
      ["story=drift+plant=no-margin", 19100],
      ["story=crash", 22000],
      ["nodes=5+9000:cut:b:9000+10000:rate:c:-100000+11000:pause:a:20000+12000:crash:d", 14000],
      ["nodes=5+9000:freeze:a:22000+fence=off", 31010],
    ]) {
      const page = await openPage(browser, at(script, ms), { colorScheme });
      await page.click("#keys");
      assert.deepEqual(await lowContrast(page), [], `${colorScheme}, ${script}`);
      await page.context().close();
    }
  }
});

test("every control has a name", async () => {
  const page = await openPage(browser, at("nodes=5", 3));
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const roles = new Set(["button", "slider", "combobox", "checkbox", "radio", "link"]);
  const controls = nodes.filter((n) => roles.has(n.role?.value) && !n.ignored);
  const nameless = controls.filter((n) => !n.name?.value?.trim());
  assert.ok(controls.length > 50, `${controls.length} controls`);
  assert.deepEqual(
    nameless.map((n) => n.role.value),
    [],
  );
});

test("with reduced motion nothing moves by itself, and play goes in steps", async () => {
  const page = await openPage(browser, at("story=crash"), { reducedMotion: "reduce" });
  assert.equal(await page.isChecked("#slow"), false);
  await page.click("#play");
  await page.waitForFunction(() => sandbox.at > 100, null, { timeout: 20000 });
  await page.click("#play");
  assert.ok(await page.evaluate(() => sandbox.lines.some((line) => line.at === sandbox.at)));
});

test("a link that holds nonsense is refused with a reason, and the page goes on", async () => {
  const page = await openPage(browser, `${served.url}#1/5/9000:crush:a`);
  assert.match(await page.textContent("#toast"), /did you mean 'crash'/);
  assert.match(await page.textContent("#title"), /pause and fence/);
  const marked = await openPage(
    browser,
    at(encodeURIComponent("nodes=1+10:say=<img src=x onerror=alert(1)>"), 20),
  );
  assert.equal(await marked.locator("#trace img, #caption img").count(), 0);
  assert.match(await marked.textContent("#caption"), /<img src=x/);
});

test("the single file works from file:", async () => {
  const page = await openPage(
    browser,
    `file://${web}/sandbox.html#1/31010/nodes=5+9000:freeze:a:22000+fence=off`,
  );
  assert.equal((await seen(page)).resource.harmed, 1);
  assert.deepEqual(page.wrongs, []);
  assert.equal(
    page.requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")).length,
    0,
  );
});

let failed = 0;
const wanted = process.env.TENURE_WEB_TEST;
const chosen = tests.filter(({ name }) => !wanted || name.includes(wanted));
for (const { name, body } of chosen) {
  try {
    await body();
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n${error.stack}`);
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
await served.end();
console.log(`${chosen.length - failed} passed, ${failed} failed, 0 skipped`);
process.exit(failed > 0 ? 1 : 0);
