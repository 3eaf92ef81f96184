/** The example page in headless Chromium: a dropped file, a fetched file, and models that onnxruntime-web runs. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import * as onnxruntime from "onnxruntime-node";
import { chromium } from "playwright-core";

import { serve } from "../example/serve.js";
import { open } from "../onnxz.js";
import { archive, archiveFile } from "./archives.js";
import { serve as serveFile } from "./server.js";
import { TYPES, convertModels, difference, missingFormats, numbers, packTranslation, readNpz } from "./models.js";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const BROWSER = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (BROWSER === undefined && process.env.CI) throw new Error("Chromium is missing");
const skip = missingFormats() ?? (BROWSER === undefined ? "Chromium is missing" : false);
/** @type {import("playwright-core").Browser} */
let browser;
/** @type {import("playwright-core").Page} */
let page;
/** @type {import("node:http").Server} */
let server;
/** @type {Awaited<ReturnType<typeof convertModels>>} */
let converted;
/** @type {string} */
let folder;
/** @type {string} */
let origin;
/** @type {string[]} origins of other servers of this machine */
const others = [];
/** @type {string[]} requests to other machines: there must be none */
const elsewhere = [];

before(async () => {
  if (skip) return;
  converted = await convertModels();
  folder = await mkdtemp(join(tmpdir(), "onnxz-page-"));
  server = await serve(0, [PACKAGE, folder, dirname(converted.models[0]?.onnxz ?? "")]);
  origin = `http://127.0.0.1:${/** @type {any} */ (server.address()).port}`;
  browser = await chromium.launch({ executablePath: BROWSER, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
  page = await browser.newPage();
  page.on("request", (request) => {
    const known = [origin, ...others, "data:", "blob:"].some((start) => request.url().startsWith(start));
    if (!known) elsewhere.push(request.url());
  });
  await page.goto(`${origin}/example/`);
});

after(async () => {
  if (skip) return;
  await browser.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true });
  await converted.remove();
  assert.deepEqual(elsewhere, []);
});

/**
 * Drops a file from the disk on the page, as a person does.
 * @param {string} path
 */
async function drop(path) {
  const session = await page.context().newCDPSession(page);
  const box = await page.locator("#drop").boundingBox();
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of /** @type {const} */ (["dragEnter", "dragOver", "drop"])) {
    await session.send("Input.dispatchDragEvent", { type, x: (box?.x ?? 0) + 9, y: (box?.y ?? 0) + 9, data });
  }
  await settled();
}

/** Waits until the page has shown a model or an error. */
const settled = () =>
  page.waitForFunction("document.body.ariaBusy === 'false' && (error.textContent || !model.hidden)");

/** @param {string} selector */
const texts = (selector) => page.locator(selector).allTextContents();

/** @param {string} name */
const modelOf = (name) => converted.models.find((model) => model.name === name);

/** The outputs of onnxruntime-node for inputs of ones, as the page shows them. */
async function expectedOutputs() {
  const opened = await open(modelOf("digits")?.onnxz ?? "");
  const { model, externalData } = await opened.model();
  const session = await onnxruntime.InferenceSession.create(model, { externalData });
  const [input] = session.inputMetadata;
  if (!input?.isTensor) throw new Error("the input is no tensor");
  const dims = input.shape.map((dim) => (typeof dim === "number" ? dim : 1));
  const ones = new Float32Array(dims.reduce((product, dim) => product * dim, 1)).fill(1);
  const found = await session.run({ [input.name]: new onnxruntime.Tensor("float32", ones, dims) });
  await opened.close();
  return session.outputNames.map((name) => /** @type {onnxruntime.Tensor} */ (found[name]));
}

test("A file that is dropped on the page is shown and run.", { skip }, async () => {
  const path = modelOf("digits")?.onnxz ?? "";
  await drop(path);
  assert.deepEqual(await texts("#error"), [""]);
  assert.deepEqual(await texts("#title"), [basename(path)]);
  const opened = await open(path);
  assert.deepEqual(
    await texts("#tensors td:nth-child(4)"),
    opened.tensors.map(({ location }) => location),
  );
  assert.match((await texts("#summary"))[0] ?? "", new RegExp(`and ${opened.entries.length - 1} entries of weights`));
  await opened.close();

  await page.click("#run button");
  await page.waitForFunction("time.textContent || error.textContent");
  assert.deepEqual(await texts("#error"), [""]);
  const outputs = await expectedOutputs();
  assert.deepEqual(
    await texts("#outputs td:nth-child(3)"),
    outputs.map(({ dims }) => dims.join(" × ")),
  );
  for (const [index, text] of (await texts("#outputs td:nth-child(4)")).entries()) {
    const shown = text
      .split(", ")
      .filter((value) => value !== "...")
      .map(Number);
    const values = Array.from(/** @type {any} */ (outputs[index]).data.slice(0, 8), Number);
    assert.ok(shown.length > 0 && difference(values, shown) < 1e-5, `${shown} for ${values}`);
  }
});

test("An address is opened by ranges.", { skip }, async () => {
  await page.reload();
  /** @type {(string | null)[]} */
  const ranges = [];
  page.on("request", async (request) => {
    if (request.url().endsWith(".onnxz")) ranges.push(await request.headerValue("range"));
  });
  await page.fill("#address", `${origin}/digits.onnxz`);
  await page.click("#fetch button");
  await settled();
  assert.deepEqual(await texts("#error"), [""]);
  assert.equal(await page.locator("#tensors tr").count(), 2);
  const before = ranges.length;
  await page.click("#load");
  await page.waitForFunction("!run.hidden || error.textContent");
  assert.deepEqual(await texts("#error"), [""]);
  assert.equal(await page.locator("#inputs tr").count(), 1);
  assert.ok(before >= 2 && before <= 4, `${before}`);
  assert.ok(ranges.length >= 2 && ranges.every((range) => range?.startsWith("bytes=")), `${ranges}`);
});

test("An address of another origin that only allows reading is opened, without asking first.", { skip }, async () => {
  const path = join(folder, "weights.onnxz");
  const bytes = Uint8Array.from({ length: 700_000 }, (_, index) => index % 251);
  await writeFile(path, archive([{ name: "w", size: bytes.length, bytes }]));
  const other = await serveFile(path, () => ({ otherOrigins: true }));
  others.push(new URL(other.address).origin);
  const found = await page.evaluate(async (address) => {
    const { open } = await import(String("/onnxz.js"));
    const opened = await open(address);
    await opened.verify();
    return opened.entries.map((/** @type {any} */ entry) => entry.name);
  }, other.address);
  await other.close();
  assert.deepEqual(found, ["w", "__MODEL_PROTO"]);
  assert.equal(other.seen.methods.filter((method) => method === "HEAD").length, 1);
  assert.ok(!other.seen.methods.includes("OPTIONS"));
});

test("What is wrong with a file is shown with the number of the requirement.", { skip }, async () => {
  const path = join(folder, "bad.onnxz");
  await writeFile(path, archive([{ name: "con", size: 5 }]));
  await drop(path);
  assert.match((await texts("#error"))[0] ?? "", /ArchiveError: the name con is reserved by Windows \(Z-4\.5\)/);
});

test("Of a file over 4 GiB only what is asked for is read.", { skip }, async () => {
  const path = join(folder, "large.onnxz");
  await archiveFile(path, [
    { name: "w", size: 5 * 2 ** 30 },
    { name: "v", size: 5, bytes: Buffer.from("hello") },
  ]);
  await page.reload();
  await page.evaluate(
    "document.body.append(Object.assign(document.createElement('input'), { type: 'file', id: 'other' }))",
  );
  await page.setInputFiles("#other", path);
  const found = await page.evaluate(async () => {
    const { open } = await import(String("/onnxz.js"));
    const opened = await open(/** @type {any} */ (document.querySelector("#other")).files[0]);
    const sizes = opened.entries.map((/** @type {any} */ entry) => entry.size);
    return { sizes, text: new TextDecoder().decode(await opened.read("v")) };
  });
  assert.deepEqual([found.sizes[0], found.text], [5 * 2 ** 30, "hello"]);
});

test("Models give in onnxruntime-web what their references say, from the .onnxz.", { skip }, async (context) => {
  await page.reload();
  for (const { name, npz } of converted.models) {
    if (npz === undefined) continue; // the example of the repository is compared above
    const arrays = [...readNpz(npz)].map(([key, { dtype, dims, bytes }]) => ({
      key,
      dims,
      type: TYPES.get(dtype) ?? "",
      data: Buffer.from(bytes).toString("base64"),
    }));
    const found = await page.evaluate(
      async ({ address, arrays }) => {
        const { open } = await import(String("/onnxz.js"));
        const ort = await import(String("onnxruntime-web"));
        const file = new File([await (await fetch(address)).blob()], "model.onnxz");
        const { model, externalData } = await (await open(file)).model();
        const session = await ort.InferenceSession.create(model, { externalData, logSeverityLevel: 3 });
        const Arrays = /** @type {any} */ ({ float32: Float32Array, int64: BigInt64Array });
        const Half = /** @type {any} */ (globalThis).Float16Array ?? Uint16Array;
        const feeds = /** @type {any} */ ({});
        for (const { key, dims, type, data } of arrays) {
          const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
          if (key.startsWith("in_"))
            feeds[key.slice(3)] = new ort.Tensor(type, new (Arrays[type] ?? Half)(bytes.buffer), dims);
        }
        const outputs = await session.run(feeds);
        await session.release();
        return session.outputNames.map((/** @type {string} */ output) => {
          const { type, dims, data } = outputs[output];
          const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
          return { type, dims, data: btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), "")) };
        });
      },
      { address: `${origin}/${name}.onnxz`, arrays },
    );
    let most = 0;
    for (const { key, dims, type, data } of arrays) {
      if (!key.startsWith("out_")) continue;
      const output = found[Number(key.slice(4))];
      assert.deepEqual([output.type, output.dims], [type, dims]);
      const [expected, given] = [data, output.data].map((text) => Uint8Array.from(Buffer.from(text, "base64")));
      const apart = difference(numbers(type, /** @type {any} */ (expected)), numbers(type, /** @type {any} */ (given)));
      most = Math.max(most, apart);
      assert.ok(apart <= (type === "float16" ? 0.02 : 1e-4), `${name}: ${key} is ${apart} apart from the reference`);
    }
    context.diagnostic(`${name}: ${most.toExponential(1)} from the reference`);
  }
});

test("An encoder and decoders with a past translate from one archive, which is read by ranges.", { skip }, async () => {
  const expected = packTranslation(join(folder, "translation.onnxz"));
  const found = await page.evaluate(
    async ({ address, sentences }) => {
      const { open } = await import(String("/onnxz.js"));
      const { translations } = await import(String("/tests/translation.js"));
      const ort = await import(String("onnxruntime-web"));
      return await translations(ort, await open(address), sentences);
    },
    { address: `${origin}/translation.onnxz`, sentences: Object.keys(expected) },
  );
  assert.deepEqual(found, expected);
});
