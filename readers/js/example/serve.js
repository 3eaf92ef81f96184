/** Serves the example page to this machine: run `node example/serve.js [port]` and open the address that it prints. */

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { pipeline } from "node:stream";
import { pathToFileURL, fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
/** @type {Record<string, string>} */
const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};

/**
 * Starts to serve the files of this package, and their ranges if a browser asks for ranges.
 * @param {number} port 0 for any free port
 * @param {string[]} folders where this looks for files, in this order
 * @returns {Promise<import("node:http").Server>}
 */
export async function serve(port = 0, folders = [FOLDER]) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname));
    const names = folders.map((folder) => join(folder, path.endsWith("/") ? `${path}index.html` : path));
    const file = names.find((name) => statSync(name, { throwIfNoEntry: false })?.isFile());
    if (file === undefined) return void response.writeHead(404).end();
    const { size, mtimeMs } = statSync(file);
    // With these two headers a page may use threads, and then onnxruntime-web uses them.
    response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
    response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
    response.setHeader("Content-Type", TYPES[extname(file)] ?? "application/octet-stream");
    response.setHeader("ETag", `"${mtimeMs}-${size}"`);
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const start = range ? Number(range[1]) : 0;
    const end = Math.min(range?.[2] ? Number(range[2]) : Infinity, size - 1);
    if (range && start > end) return void response.writeHead(416, { "Content-Range": `bytes */${size}` }).end();
    if (range) response.setHeader("Content-Range", `bytes ${start}-${end}/${size}`);
    response.writeHead(range ? 206 : 200, { "Content-Length": end + 1 - start, "Accept-Ranges": "bytes" });
    if (request.method === "HEAD" || size === 0) return void response.end();
    pipeline(createReadStream(file, { start, end }), response, () => {}); // a browser may hang up
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(undefined)));
  return server;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const port = Number(process.argv[2] ?? 8080);
  await serve(port);
  console.log(`http://localhost:${port}/example/`);
}
