/** A server of ranges of one file. It counts requests and bytes, and can show the faults of real servers. */

import { createServer } from "node:http";
import { open } from "node:fs/promises";

/**
 * @typedef {object} Habits
 * @property {boolean} [ignoresRanges] answers with the whole file
 * @property {boolean} [hidesSize] as for pages of other origins, which may not see Content-Range and ETag
 * @property {boolean} [otherOrigins] lets pages of other origins read the file, and allows no more
 * @property {boolean} [lacksSize] says `*` for the size
 * @property {number} [shorter] sends this many bytes too few, with a Content-Length that says so
 * @property {number} [cut] closes the connection this many bytes before the end of an answer
 * @property {number} [more] sends this many bytes more than asked for
 * @property {number} [status] answers with this status
 * @property {string} [encoding] says that the answer has this encoding
 * @property {boolean} [shifted] answers with another range than asked for
 */

/**
 * @param {string} path
 * @param {(request: number) => Habits & { etag?: string, size?: number }} [habits] by the number of the request, from 0 on
 */
export async function serve(path, habits = () => ({})) {
  const file = await open(path);
  const fileSize = (await file.stat()).size;
  const seen = { requests: 0, bytes: 0, methods: /** @type {string[]} */ ([]), headers: /** @type {any[]} */ ([]) };
  const server = createServer(async (request, response) => {
    const habit = habits(seen.requests++);
    seen.methods.push(request.method ?? "");
    seen.headers.push(request.headers);
    const size = habit.size ?? fileSize;
    if (habit.otherOrigins) response.setHeader("Access-Control-Allow-Origin", "*");
    if (request.method === "OPTIONS") return void response.writeHead(405).end();
    if (!habit.hidesSize) response.setHeader("ETag", habit.etag ?? '"1"');
    if (habit.status) return void response.writeHead(habit.status).end();
    if (request.method === "HEAD") return void response.setHeader("Content-Length", size).end();
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    if (range === null || habit.ignoresRanges) {
      response.writeHead(200, { "Content-Length": size });
      return void response.end(Buffer.alloc(Math.min(size, 2 ** 20)));
    }
    const first = Number(range[1]) + (habit.shifted ? 1 : 0);
    const last = Math.min(Number(range[2]), size - 1);
    if (first > last) return void response.writeHead(416).end();
    const length = last + 1 - first - (habit.shorter ?? 0) + (habit.more ?? 0);
    if (!habit.hidesSize) {
      response.setHeader("Content-Range", `bytes ${first}-${last}/${habit.lacksSize ? "*" : size}`);
    }
    if (habit.encoding) response.setHeader("Content-Encoding", habit.encoding);
    response.writeHead(206, { "Content-Length": length });
    const bytes = Buffer.alloc(length);
    await file.read(bytes, 0, length, first);
    seen.bytes += length;
    if (habit.cut === undefined) response.end(bytes);
    else response.write(bytes.subarray(0, length - habit.cut), () => response.destroy());
  });
  await /** @type {Promise<void>} */ (new Promise((resolve) => server.listen(0, "127.0.0.1", resolve)));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    address: `http://127.0.0.1:${address.port}/model.onnxz`,
    seen,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await file.close();
    },
  };
}
