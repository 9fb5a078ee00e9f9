// Opens the pages and pictures of `protosplit tree` in a browser, uses them by mouse and keyboard, and takes screenshots.
//
//   node run.mjs PROTOSPLIT

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { strict as assert } from "node:assert";
import { node, writeGraph } from "./graphs.mjs";

const repository = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const require = createRequire(join(repository, ".browser/node_modules/"));
const { chromium } = require("playwright-core");
const [protosplit] = process.argv.slice(2);
assert(protosplit, "usage: node run.mjs PROTOSPLIT");

const shots = join(repository, ".browser/shots");
mkdirSync(shots, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), "protosplit-browser-"));
const inFolder = (name) => join(folder, name);
const run = (...args) => execFileSync(protosplit, args, { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28 });

// The inputs of the pages.
const fixture = (name) => join(repository, "tests/data/tensorflow", name);
const MODEL = fixture("functions_consts");
const HOSTILE = [
  "</script><script>window.hacked = 1</script>",
  "<img src=x onerror='window.hacked = 2'>",
  "\"><svg onload=\"window.hacked = 3\">",
  "{{data}}{{title}}<!--",
  "line\u2028paragraph\u2029\u202eright to left",
];
const typed = ["--message", "tensorflow.GraphDef"];

const prepare = async () => {
  run("tree", MODEL, "--html", "model.html", "--svg", "model.svg");
  run("split", MODEL, "-o", "small", "--max-chunk-size", "20KiB");
  run("tree", "small", "--html", "chunked.html");
  const names = (function* () { for (const [at, name] of HOSTILE.entries()) yield node(name, name, name, 2000 * (at + 1)); })();
  await writeGraph(inFolder("hostile '<b>&.pb"), names);
  run("tree", "hostile '<b>&.pb", ...typed, "--html", "hostile.html", "--svg", "hostile.svg");
  const MANY = 1_000_000;
  const many = (function* () { for (let at = 0; at < MANY; at += 1) yield node(`layer_${at % 977}/node_${at}`, "AddV2", `attribute_${at % 5000}`, at % 16384 === 0 ? 300_000 : at % 61); })();
  await writeGraph(inFolder("many.pb"), many);
  run("tree", "many.pb", ...typed, "--html", "many.html");
  run("tree", "many.pb", "--html", "untyped.html");
  writeFileSync(inFolder("empty.pb"), "");
  run("tree", "empty.pb", "--html", "empty.html", "--svg", "empty.svg");
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
  ],
});

// Opens a file in a page. The page must not fail, write to the console, or request anything else.
const open = async (name, { mode = "fields", ...options } = {}) => {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(inFolder(name)).href;
  const troubles = [];
  page.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
  page.on("console", (message) => troubles.push(`console: ${message.text()}`));
  page.on("request", (request) => { if (request.url().split("#")[0] !== url) troubles.push(`request: ${request.url()}`); });
  await page.goto(url);
  if (name.endsWith(".html") && mode !== "members") await page.check(`input[value=${mode}]`);
  const close = async () => {
    assert.deepEqual(troubles, []);
    await context.close();
  };
  return { page, close };
};

const shot = (page, name, options = {}) => page.screenshot({ path: join(shots, `${name}.png`), ...options });
const cells = (page, depth) => page.$$eval(".cell", (found, depth) => found
  .map((cell) => {
    const { x, y, width, height } = cell.getBoundingClientRect();
    return { path: cell.dataset.path, size: +cell.dataset.size, depth: +cell.dataset.depth, text: cell.textContent, kind: cell.className, x, y, width, height };
  })
  .filter((cell) => depth === undefined || cell.depth === depth), depth);
const crumb = (page) => page.textContent("nav button[aria-current]");

// Checks that the areas of cells are proportional to their sizes.
const proportional = (found) => {
  const area = (cell) => cell.width * cell.height;
  const [sizes, areas] = [found.reduce((sum, cell) => sum + cell.size, 0), found.reduce((sum, cell) => sum + area(cell), 0)];
  for (const cell of found) {
    const [wanted, is] = [cell.size / sizes, area(cell) / areas];
    assert(Math.abs(wanted - is) < 0.02, `${cell.path}: ${wanted} of the bytes and ${is} of the area`);
  }
};

const luminance = (color) => {
  const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [light, dark] = [luminance(a), luminance(b)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
};

const tests = {
  "a page draws its treemap, in proportion, without an error or a request": async () => {
    const { page, close } = await open("model.html");
    const all = await cells(page);
    assert(all.length > 30, `${all.length} cells`);
    proportional(await cells(page, 0));
    const map = await page.locator("#map").boundingBox();
    for (const cell of all) {
      assert(cell.x >= map.x - 1 && cell.y >= map.y - 1, cell.path);
      assert(cell.x + cell.width <= map.x + map.width + 1 && cell.y + cell.height <= map.y + map.height + 1, cell.path);
    }
    assert(all.some((cell) => cell.path.endsWith("tensor_content")));
    assert.match(await page.textContent("#about"), /tensorflow.SavedModel · 146.7 KiB/);
    await shot(page, "light");
    await close();
  },
  "the cells inside of a cell are in proportion, too": async () => {
    const { page, close } = await open("model.html");
    await page.evaluate(() => { location.hash = encodeURIComponent("meta_graphs[*].graph_def.library.function[*].node_def[*]"); });
    await page.waitForFunction(() => document.querySelector("nav button[aria-current]").textContent === "node_def[*]");
    proportional(await cells(page, 0));
    proportional((await cells(page, 1)).filter((cell) => /attr\[\*\]\.[^.]+$/.test(cell.path)));
    await close();
  },
  "what is under the pointer is told: path, size, share, count and chunk": async () => {
    const { page, close } = await open("chunked.html");
    const found = (await cells(page)).find((cell) => cell.path.endsWith("tensor_content"));
    await page.mouse.move(found.x + found.width / 2, found.y + found.height / 2);
    const tip = await page.textContent("#tip");
    for (const part of ["node_def[*].attr[*].tensor.tensor_content", "126.2 KiB (129,221 bytes)", "86.0%", "count4", "typebytes", "chunk1..3"]) {
      assert(tip.includes(part), `${part} in ${tip}`);
    }
    await shot(page, "tip");
    await page.mouse.move(5, 5);
    assert(!(await page.isVisible("#tip")));
    assert((await page.textContent("#head")).includes("Chunk"));
    await close();
  },
  "clicks zoom in, crumbs and the browser's back button zoom out": async () => {
    const { page, close } = await open("model.html");
    const before = await crumb(page);
    const largest = (await cells(page)).filter((cell) => cell.path.endsWith("tensor_content"))[0];
    const way = [before];
    for (let clicks = 0; clicks < 12 && (await crumb(page)) !== "tensor"; clicks += 1) {
      const now = (await cells(page)).find((cell) => cell.path === largest.path);
      await page.mouse.click(now.x + now.width / 2, now.y + now.height - 6);
      way.push(await crumb(page));
      if (way.length === 4) await shot(page, "zoomed");
    }
    assert(way.length > 3 && way.length < 12, way.join(" "));
    assert.equal(await crumb(page), "tensor");
    proportional(await cells(page, 0));
    await page.click("nav button >> nth=1");
    assert.equal(await crumb(page), "meta_graphs[*]");
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("nav button[aria-current]").textContent === "tensor");
    await page.click("nav button >> nth=0");
    assert.equal(await crumb(page), before);
    await close();
  },
  "all of it can be used by the keyboard": async () => {
    const { page, close } = await open("model.html");
    const focused = () => page.evaluate(() => document.activeElement.dataset?.path ?? document.activeElement.id);
    await page.keyboard.press("/");
    assert.equal(await focused(), "search");
    for (let tabs = 0; tabs < 8 && !(await focused()).startsWith("meta_graphs"); tabs += 1) await page.keyboard.press("Tab");
    assert.equal(await focused(), "meta_graphs[*]");
    assert(await page.isVisible("#tip"), "what has the focus is told");
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), "meta_graphs[*].graph_def");
    await page.keyboard.press("ArrowRight");
    assert.equal(await focused(), "meta_graphs[*].meta_info_def");
    await page.keyboard.press("ArrowLeft");
    await shot(page, "keyboard");
    await page.keyboard.press("Enter");
    assert.equal(await crumb(page), "graph_def");
    await page.keyboard.press("Escape");
    assert.equal(await crumb(page), "meta_graphs[*]");
    assert.equal(await focused(), "meta_graphs[*].graph_def");
    await page.keyboard.press("Backspace");
    assert.equal(await crumb(page), "tensorflow.SavedModel");
    await close();
  },
  "a search marks and lists what it finds, and leads there": async () => {
    const { page, close } = await open("model.html");
    await page.fill("#search", "TENSOR_content");
    await page.waitForSelector(".cell.hit");
    const hits = await page.$$eval(".cell.hit", (found) => found.map((cell) => cell.dataset.path));
    assert(hits.length > 0 && hits.every((path) => path.endsWith("tensor_content")), hits.join(" "));
    assert.match(await page.textContent("#status"), /^\d+ found$/);
    assert.match(await page.textContent("#rows tr"), /tensor_content/);
    await shot(page, "search");
    await page.fill("#search", "Const_1 float");
    await page.waitForFunction(() => /Const_1/.test(document.querySelector("#rows").textContent));
    await page.press("#search", "Enter");
    assert.equal(await crumb(page), "node_def[*]");
    await page.fill("#search", "no such thing");
    await page.waitForFunction(() => document.querySelector("#status").textContent === "nothing found");
    await page.press("#search", "Escape");
    assert.equal(await page.textContent("#status"), "");
    assert.equal(await page.inputValue("#search"), "");
    await close();
  },
  "repeated fields are cut into members where they have names, or into fields": async () => {
    const { page, close } = await open("model.html", { mode: "members" });
    const members = async () => (await cells(page)).filter((cell) => cell.kind.includes("member")).map((cell) => cell.text);
    const first = await members();
    assert(first.includes("Const_1 · Const float[64, 300]75.1 KiB"), first.join());
    await shot(page, "members");
    await page.check("input[value=fields]");
    assert.deepEqual(await members(), []);
    await close();
  },
  "a function is a cell of its own, and a click on it, and on a node in it, goes into it": async () => {
    const { page, close } = await open("model.html", { mode: "members" });
    const largest = async (step) => (await cells(page)).filter((cell) => step.test(cell.path)).sort((a, b) => b.size - a.size)[0];
    const way = [];
    for (let clicks = 0; clicks < 10; clicks += 1) {
      const cell = (await largest(/node_def\[\d+\]$/)) ?? (await largest(/function\[\d+\]$/));
      if (!cell) break;
      await page.mouse.click(cell.x + cell.width / 2, cell.y + cell.height - 6);
      way.push(await crumb(page));
    }
    const all = await page.$$eval("nav button", (found) => found.map((button) => button.textContent));
    for (const name of ["function[*]", "__inference_f_325", "node_def[*]", "Const_1"]) assert(all.includes(name), `${name} in ${all.join(" ")}`);
    proportional(await cells(page, 0));
    const hash = await page.evaluate(() => decodeURIComponent(location.hash.slice(1)));
    assert.match(hash, /function\[5\]\.node_def\[\d+\]/);
    // The address reopens the page at the same place.
    await page.reload();
    assert((await page.textContent("nav button[aria-current]")).length > 0);
    assert.equal(await page.evaluate(() => decodeURIComponent(location.hash.slice(1))), hash);
    await shot(page, "member");
    await close();
  },
  "the table lists fields and members, and sorts by every column": async () => {
    const { page, close } = await open("model.html");
    await page.click("nav button >> nth=0");
    await page.click("#rows .go >> text=meta_graphs[*]");
    assert.equal(await crumb(page), "meta_graphs[*]");
    // These are the rows between the heading "Fields" and the next heading, except the sum of the remaining fields.
    const names = () => page.$$eval("#rows tr", (rows) => {
      const from = rows.findIndex((row) => row.textContent === "Fields") + 1;
      const end = rows.findIndex((row, at) => at > from && !row.classList.contains("row"));
      return rows.slice(from, end).map((row) => row.querySelector("td").firstChild.textContent).filter((name) => !name.startsWith("["));
    });
    const bySize = await names();
    assert.deepEqual(bySize.slice(0, 2), ["graph_def", "meta_info_def"]);
    await page.click("#head button >> text=Field");
    const byName = await names();
    assert.deepEqual(byName, [...byName].sort());
    assert.equal(await page.getAttribute("#head th >> nth=0", "aria-sort"), "ascending");
    await page.click("#head button >> text=Field");
    assert.deepEqual(await names(), byName.reverse());
    await close();
  },
  "in the dark everything can be read": async () => {
    for (const colorScheme of ["light", "dark"]) {
      const { page, close } = await open("model.html", { colorScheme });
      await page.check("input[value=members]");
      const colors = await page.$$eval(".cell:not(.rest), body, .list, .key:not(.rest)", (found) => found.map((cell) => {
        const style = getComputedStyle(cell);
        return [cell.className || cell.tagName, style.color, style.backgroundColor];
      }));
      for (const [what, ink, paper] of colors.filter(([what]) => !what.startsWith("key"))) {
        assert(contrast(ink, paper) >= 4.5, `${colorScheme}: ${what} has ${contrast(ink, paper).toFixed(1)}`);
      }
      const page_ = colors.find(([what]) => what === "BODY")[2];
      assert.equal(luminance(page_) < 0.5, colorScheme === "dark");
      await page.check("input[value=fields]");
      await shot(page, colorScheme);
      await close();
    }
  },
  "printed it is light, whole, and without what can't be pressed on paper": async () => {
    const { page, close } = await open("chunked.html", { colorScheme: "dark" });
    await page.emulateMedia({ media: "print", colorScheme: "light" });
    assert(!(await page.isVisible("#search")) && (await page.isVisible("#map")) && (await page.isVisible("table")));
    const pdf = await page.pdf({ path: join(shots, "print.pdf"), format: "A4", printBackground: true });
    assert(pdf.length > 10_000);
    await page.setViewportSize({ width: 720, height: 1020 });
    await shot(page, "print", { fullPage: true });
    proportional(await cells(page, 0));
    await close();
  },
  "on a small screen the table is below, and nothing is cut off": async () => {
    const { page, close } = await open("model.html", { viewport: { width: 390, height: 800 } });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert(wide <= 390, `${wide} pixels wide`);
    assert((await cells(page)).length > 8);
    await shot(page, "narrow", { fullPage: true });
    await close();
  },
  "names from a file are text, whatever is in them": async () => {
    const { page, close } = await open("hostile.html");
    assert.equal(await page.title(), "hostile '<b>&.pb: sizes by field");
    assert.equal(await page.textContent("h1"), "hostile '<b>&.pb");
    await page.check("input[value=members]");
    await page.fill("#search", "script");
    await page.waitForSelector(".cell.hit");
    const text = await page.textContent("#rows");
    assert(text.includes("</script><script>window.hacked = 1</script>"), text);
    for (const cell of await page.$$(".cell")) { await cell.hover({ force: true }).catch(() => {}); break; }
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await shot(page, "hostile");
    await close();
  },
  "a million nodes fit in a page, and are drawn at once": async () => {
    for (const name of ["many.html", "untyped.html"]) {
      const bytes = statSync(inFolder(name)).size;
      assert(bytes < 5_000_000, `${name} has ${bytes} bytes`);
      const { page, close } = await open(name);
      assert((await cells(page)).length > 5, name);
      proportional(await cells(page, 0));
      if (name === "many.html") {
        await page.check("input[value=members]");
        assert((await cells(page)).length > 50);
        await page.fill("#search", "node_16384");
        await page.waitForSelector(".cell.hit");
      }
      await shot(page, name.replace(".html", ""));
      await close();
    }
  },
  "an empty message has a page, too": async () => {
    const { page, close } = await open("empty.html");
    assert.match(await page.textContent("#about"), /0 B/);
    assert.equal((await cells(page)).length, 0);
    await close();
  },
  "a picture is drawn in proportion, without a script": async () => {
    for (const name of ["model.svg", "hostile.svg", "empty.svg"]) {
      const { page, close } = await open(name);
      const found = await page.evaluate(() => {
        const rects = [...document.querySelectorAll("g > rect")].map((rect) => ({
          told: rect.previousSibling.textContent, width: +rect.getAttribute("width"), height: +rect.getAttribute("height"),
        }));
        return { root: document.documentElement.tagName, scripts: document.scripts.length, rects, hacked: window.hacked };
      });
      assert.deepEqual([found.root, found.scripts, found.hacked], ["svg", 0, undefined], name);
      if (name === "model.svg") {
        assert(found.rects.length > 30, `${found.rects.length} rects`);
        const area = (what) => { const rect = found.rects.find(({ told }) => told.startsWith(`${what}: `)); return rect.width * rect.height; };
        const [graph, info] = ["meta_graphs[*].graph_def", "meta_graphs[*].meta_info_def"].map(area);
        assert(Math.abs(graph / info - 144881 / 2859) < 3, `${graph / info}`);
      }
      if (name !== "empty.svg") await shot(page, name.replace(".svg", "-svg"));
      await close();
    }
    const { page, close } = await open("model.svg", { colorScheme: "dark" });
    await shot(page, "model-svg-dark");
    await close();
  },
};

let [passed, failed] = [0, 0];
try {
  await prepare();
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      passed += 1;
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n        ${String(error.stack ?? error).split("\n").slice(0, 6).join("\n        ")}`);
    }
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
