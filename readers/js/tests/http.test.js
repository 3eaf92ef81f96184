/** An archive at an HTTP address: what the reader fetches, and faults of servers. */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { SourceError, open } from "../onnxz.js";
import { archive, archiveFile } from "./archives.js";
import { serve } from "./server.js";

const MIB = 2 ** 20;
/** @type {string} */
let folder;
before(async () => void (folder = await mkdtemp(join(tmpdir(), "onnxz-"))));
after(async () => rm(folder, { recursive: true }));

/** @param {Uint8Array} bytes */
const write = async (bytes) => {
  const path = join(folder, `${crypto.randomUUID()}.onnxz`);
  await writeFile(path, bytes);
  return path;
};

/** @param {number} size */
const weight = (size, name = "w") => ({
  name,
  size,
  bytes: Uint8Array.from({ length: size }, (_, index) => index % 251),
});

/**
 * Runs a test with a server, and then closes the server.
 * @param {string} path
 * @param {Parameters<typeof serve>[1]} habits
 * @param {(server: Awaited<ReturnType<typeof serve>>) => Promise<void>} run
 */
async function withServer(path, habits, run) {
  const server = await serve(path, habits);
  try {
    await run(server);
  } finally {
    await server.close();
  }
}

for (const [title, textBytes] of /** @type {const} */ ([
  ["of 25 KiB", 0],
  ["of 3 MiB", 3 * MIB],
])) {
  test(`The graph ${title} of an archive of 1 GiB takes at most 4 requests and 1 MiB beyond the graph.`, async (context) => {
    const path = join(folder, `gib${textBytes}.onnxz`);
    const weights = Array.from({ length: 256 }, (_, index) => ({ name: `layer_${index}_weight`, size: 4 * MIB }));
    const size = await archiveFile(path, weights, { textBytes });
    assert.ok(size > 2 ** 30);
    await withServer(path, undefined, async ({ address, seen }) => {
      const opened = await open(address);
      const graph = await opened.graph();
      context.diagnostic(`graph of ${graph.length} bytes in ${size}: ${seen.requests} requests, ${seen.bytes} bytes`);
      assert.equal(opened.tensors.length, 256);
      assert.ok(graph.length > textBytes);
      assert.ok(seen.requests <= 4);
      assert.ok(seen.bytes <= graph.length + MIB);

      const before = { ...seen };
      assert.equal((await opened.read("layer_100_weight")).length, 4 * MIB);
      assert.equal(seen.requests, before.requests + 1);
      assert.ok(seen.bytes - before.bytes <= 4 * MIB + 65_000);
      assert.ok(seen.headers.every((headers) => headers["accept-encoding"] === "identity"));
    });
  });
}

test("A directory larger than what is fetched at first takes one request more, and still no more than 4.", async () => {
  const weights = Array.from({ length: 5000 }, (_, index) => weight(64, `w${index}${"_".repeat(200)}`));
  const path = await write(archive(weights, { textBytes: MIB }));
  await withServer(path, undefined, async ({ address, seen }) => {
    const opened = await open(address);
    assert.equal(opened.entries.length, 5001);
    assert.ok(seen.requests <= 4, `${seen.requests}`);
  });
});

test("The whole model is fetched in few requests, and is that of the file.", async () => {
  const weights = [
    weight(700_000, "a"),
    weight(0, "b"),
    { name: "c", size: 70_000_000 },
    weight(5000, "d"),
    weight(300_000, "e"),
  ];
  const bytes = archive(weights);
  await withServer(await write(bytes), undefined, async ({ address, seen }) => {
    const found = await (await open(address)).model();
    const expected = await (await open(bytes)).model();
    assert.deepEqual(new Uint8Array(found.model), new Uint8Array(expected.model));
    assert.deepEqual(
      found.externalData.map(({ path }) => path),
      ["a", "b", "c", "d", "e"],
    );
    for (const [index, { data }] of found.externalData.entries()) {
      assert.equal(Buffer.compare(data, expected.externalData[index]?.data ?? Buffer.alloc(0)), 0);
    }
    assert.equal(new Set(found.externalData.map(({ data }) => data.buffer)).size, 5); // each can be transferred alone
    assert.ok(seen.requests <= 5, `${seen.requests}`);
  });
});

test("An archive of any size around the ranges that are fetched is read.", async () => {
  for (const size of [0, 1, 400, 800, 1024, 1500, 256 * 1024 - 900, 256 * 1024, 256 * 1024 + 700, 600_000]) {
    const bytes = archive([weight(size), weight(100, "v")]);
    await withServer(await write(bytes), undefined, async ({ address }) => {
      const opened = await open(address);
      assert.equal(Buffer.compare(await opened.read("w"), weight(size).bytes), 0);
      assert.deepEqual(new Uint8Array(await opened.read("v")), weight(100).bytes);
      await opened.verify();
    });
  }
});

test("Headers go with every request.", async () => {
  await withServer(await write(archive([weight(600_000)])), undefined, async ({ address, seen }) => {
    const opened = await open(new URL(address), { headers: { Authorization: "Bearer x" } });
    await opened.read("w");
    assert.ok(seen.requests >= 3 && seen.headers.every((headers) => headers.authorization === "Bearer x"));
  });
});

test("A signal ends it with the reason of the signal.", async () => {
  await withServer(await write(archive([weight(600_000)])), undefined, async ({ address }) => {
    const controller = new AbortController();
    const opened = await open(address, { signal: controller.signal });
    controller.abort();
    await assert.rejects(opened.read("w"), { name: "AbortError" });
  });
});

test("Where pages may not see the size of a range, it is asked for.", async () => {
  await withServer(
    await write(archive([weight(600_000)])),
    () => ({ hidesSize: true }),
    async ({ address, seen }) => {
      const opened = await open(address);
      assert.deepEqual(new Uint8Array(await opened.read("w")), weight(600_000).bytes);
      assert.deepEqual(seen.methods.filter((method) => method === "HEAD").length, 1);
    },
  );
});

/** @type {[string, Parameters<typeof serve>[1], RegExp][]} */
const WRONG = [
  ["ignores ranges", () => ({ ignoresRanges: true }), /the server does not serve ranges/],
  ["ignores ranges later", (request) => ({ ignoresRanges: request > 1 }), /the server does not serve ranges/],
  ["has no such file", () => ({ status: 404 }), /the server answers 404 Not Found/],
  ["fails later", (request) => (request > 1 ? { status: 500 } : {}), /the server answers 500/],
  ["does not tell the size", () => ({ lacksSize: true }), /has no size/],
  ["answers shorter", (request) => (request > 1 ? { shorter: 5 } : {}), /has \d+ of \d+ bytes/],
  ["answers nothing", () => ({ shorter: 1024 }), /has 0 of 1024 bytes/],
  ["ends an answer early", (request) => (request > 1 ? { cut: 5 } : {}), /ended after \d+ of \d+ bytes/],
  ["answers longer", (request) => (request > 1 ? { more: 5 } : {}), /more than the \d+ requested bytes/],
  ["answers another range", (request) => ({ shifted: request > 1 }), /answers bytes \d+ to \d+, not/],
  ["encodes", () => ({ encoding: "br" }), /encoded as br/],
  ["has another ETag later", (request) => ({ etag: request > 1 ? '"2"' : '"1"' }), /it was "1" and is "2" now/],
  ["has another ETag at once", (request) => ({ etag: `"${request}"` }), /it was "0" and is "1" now/],
  [
    "has another size later",
    (request) => (request > 1 ? { size: 700_000 } : {}),
    /it had \d+ bytes and has 700000 now/,
  ],
  ["has less later", (request) => (request > 1 ? { size: 10 } : {}), /shorter|it had \d+ bytes/],
];

for (const [title, habits, message] of WRONG) {
  test(`A server that ${title} is an error that says so.`, async () => {
    await withServer(await write(archive([weight(600_000)])), habits, async ({ address }) => {
      const reading = open(address).then((opened) => opened.read("w"));
      await assert.rejects(reading, (error) => {
        assert.ok(error instanceof SourceError, String(error));
        assert.match(error.message, message);
        return error.message.includes(address);
      });
    });
  });
}

test("A file that is empty, and a server that is not there, are errors that say so.", async () => {
  const server = await serve(await write(new Uint8Array()));
  await assert.rejects(open(server.address), { name: "SourceError", message: /the file is empty/ });
  await server.close();
  await assert.rejects(open(server.address), { name: "SourceError", message: /cannot be fetched/ });
});
