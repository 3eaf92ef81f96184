/**
 * Loads the model in a folder with transformers.js, over HTTP, as it loads one from the Hub: in Node, or in Chromium.
 *
 * node load.js node|browser FOLDER OPTIONS INPUTS: OPTIONS are those of from_pretrained, INPUTS are arrays of numbers by
 * name, all in JSON. It prints the requests to the server, and the outputs or the error.
 */

import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const MODULES = fileURLToPath(new URL("node_modules", import.meta.url));
const BROWSER = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const TYPES = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html" };

const [where, folder, options, inputs] = process.argv.slice(2);
const requested = [];

const server = createServer(async (request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  const model = /^\/me\/model\/resolve\/main\/(.*)$/.exec(path);
  if (model && request.method === "GET") requested.push(model[1]);
  if (path === "/") return void response.setHeader("Content-Type", "text/html").end("<!doctype html>");
  try {
    const data = await readFile(model ? join(folder, model[1]) : join(MODULES, path));
    const type = TYPES[/\.\w+$/.exec(path)?.[0]] ?? "application/octet-stream";
    response.writeHead(200, { "Content-Type": type, "Content-Length": data.length });
    response.end(request.method === "HEAD" ? undefined : data);
  } catch {
    response.writeHead(404).end();
  }
});

/** Runs in Node and in the browser: the library's own way from the name of a model to its outputs. */
async function outputsOf({ module, origin, cacheDir, options, inputs }) {
  const { AutoModel, Tensor, env } = await import(module);
  Object.assign(env, { allowLocalModels: false, remoteHost: `${origin}/`, cacheDir, useBrowserCache: false });
  if (cacheDir === null) env.backends.onnx.wasm.wasmPaths = `${origin}/onnxruntime-web/dist/`;
  try {
    const model = await AutoModel.from_pretrained("me/model", options);
    const tensors = Object.entries(inputs).map(([name, data]) => [
      name,
      new Tensor("float32", Float32Array.from(data), [1, data.length]),
    ]);
    const outputs = await model(Object.fromEntries(tensors));
    return { outputs: Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, [...value.data]])) };
  } catch (error) {
    return { error: String(error) };
  }
}

await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${server.address().port}`;
const given = { origin, options: JSON.parse(options), inputs: JSON.parse(inputs) };
let result;
if (where === "node") {
  const cacheDir = await mkdtemp(join(tmpdir(), "transformers-"));
  result = await outputsOf({ ...given, module: "@huggingface/transformers", cacheDir });
  await rm(cacheDir, { recursive: true });
} else {
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({
    executablePath: BROWSER,
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  const page = await browser.newPage();
  await page.goto(origin);
  const module = `${origin}/@huggingface/transformers/dist/transformers.js`;
  result = await page.evaluate(outputsOf, { ...given, module, cacheDir: null });
  await browser.close();
}
server.closeAllConnections();
server.close();
process.stdout.write(JSON.stringify({ requested: requested.sort(), ...result }));
process.exit(0);
