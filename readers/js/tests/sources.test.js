/** The kinds of sources of an archive, and what the reader reads from them. */

import assert from "node:assert/strict";
import { openAsBlob } from "node:fs";
import { mkdtemp, open as openFile, readFile, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { ArchiveError, SourceError, open } from "../onnxz.js";
import { archive, archiveFile, model, tensor } from "./archives.js";

/** @type {string} */
let folder;
before(async () => void (folder = await mkdtemp(join(tmpdir(), "onnxz-"))));
after(async () => rm(folder, { recursive: true }));

const W = Uint8Array.from({ length: 1000 }, (_, index) => index % 251);
const V = Uint8Array.from({ length: 70 }, (_, index) => 255 - index);
const WEIGHTS = [
  { name: "w", size: W.length, bytes: W },
  { name: "v", size: V.length, bytes: V },
];
const BYTES = archive(WEIGHTS);
const GRAPH = model([tensor("w", 1000), tensor("v", 70)]);

test("Every source gives the same entries, tensors, graph and payloads.", async () => {
  const path = join(folder, "model.onnxz");
  await writeFile(path, BYTES);
  const handle = await openFile(path);
  const inside = new Uint8Array(BYTES.length + 20);
  inside.set(BYTES, 10);
  /** @type {Record<string, import("../onnxz.js").Source>} */
  const sources = {
    bytes: BYTES,
    view: inside.subarray(10, 10 + BYTES.length),
    buffer: await readFile(path),
    memory: /** @type {ArrayBuffer} */ (BYTES.buffer),
    blob: new Blob([BYTES]),
    file: new File([BYTES], "model.onnxz"),
    fileBlob: await openAsBlob(path),
    path,
    address: pathToFileURL(path),
    handle,
  };
  for (const [name, source] of Object.entries(sources)) {
    const found = await open(source);
    assert.equal(found.size, BYTES.length, name);
    assert.deepEqual(
      found.entries.map((entry) => [entry.name, entry.size, entry.offset % 64]),
      [
        ["w", 1000, 0],
        ["v", 70, 0],
        ["__MODEL_PROTO", GRAPH.length, 0],
      ],
    );
    const [first] = found.tensors;
    assert.deepEqual(first, {
      name: "w",
      model: null,
      dims: [1000n],
      dataType: 2,
      location: "w",
      offset: found.entries[0]?.offset,
      size: 1000,
    });
    assert.deepEqual(Buffer.from(await found.graph()), GRAPH);
    assert.deepEqual(new Uint8Array(await found.read("v")), V);
    const { model: graph, externalData } = await found.model();
    assert.deepEqual(Buffer.from(graph), GRAPH);
    assert.deepEqual(
      externalData.map(({ path, data }) => [path, new Uint8Array(data)]),
      [
        ["w", W],
        ["v", V],
      ],
    );
    await found.verify();
    await found.close();
  }
  assert.equal((await handle.stat()).size, BYTES.length); // the reader does not close a handle that it was given
  await handle.close();
});

test("What is no source is refused with a TypeError.", async () => {
  for (const source of [undefined, null, 7, {}, new URL("ftp://localhost/model.onnxz")]) {
    await assert.rejects(open(/** @type {any} */ (source)), TypeError);
  }
});

test("A file that is missing, and a name that no entry has, are said.", async () => {
  await assert.rejects(open(join(folder, "nothing.onnxz")), { code: "ENOENT" });
  await assert.rejects((await open(BYTES)).read("x"), RangeError);
});

test("A file that changes after it was opened is an error, not other bytes.", async () => {
  const path = join(folder, "changing.onnxz");
  await writeFile(path, BYTES);
  const changed = await open(path);
  await utimes(path, 1, 1);
  await assert.rejects(changed.read("w"), SourceError);
  await changed.close();
  const shorter = await open(path);
  await truncate(path, 100);
  await assert.rejects(shorter.model(), SourceError);
  await shorter.close();
});

test("A damaged payload is read, and found by verify.", async () => {
  const bytes = BYTES.slice();
  const { offset } = /** @type {import("../onnxz.js").Entry} */ ((await open(bytes)).entries[0]);
  bytes[offset + 999] = 7;
  const damaged = await open(bytes);
  assert.equal((await damaged.read("w"))[999], 7);
  await assert.rejects(damaged.verify(), /entry w is damaged/);
});

test("Sizes and offsets over 4 GiB are read by zip64.", async () => {
  const path = join(folder, "large.onnxz");
  const sizes = [5 * 2 ** 30 + 7, 2 ** 32 - 1, 2 ** 32 - 2, 1000];
  const weights = sizes.map((size, index) => ({ name: `w${index}`, size }));
  weights[3] = { name: "w3", size: 1000, ...{ bytes: W } };
  await archiveFile(path, weights);
  const large = await open(path);
  assert.deepEqual(
    large.entries.slice(0, 4).map(({ size }) => size),
    sizes,
  );
  assert.deepEqual(new Uint8Array(await large.read("w3")), W);
  assert.equal(large.tensors[3]?.offset, large.entries[3]?.offset);
  await large.close();
});

test("Sizes beyond 2^53 are refused.", async () => {
  const path = join(folder, "beyond.onnxz");
  const size = await archiveFile(path, [{ name: "w", size: 2 ** 32 }]);
  const bytes = await readTail(path, size);
  for (const value of [2n ** 53n, 2n ** 63n, 2n ** 64n - 1n]) {
    // The size of w in the directory, the offset of the directory, and the number of entries.
    for (const [at, requirement] of [
      [46 + 1 + 4, "Z-2.5"],
      [bytes.length - 22 - 20 - 8, "Z-2.3"],
      [bytes.length - 22 - 20 - 24, "Z-5.1"],
    ]) {
      const changed = Buffer.from(bytes);
      changed.writeBigUInt64LE(value, Number(at));
      const file = await openFile(path, "r+");
      await file.write(changed, 0, changed.length, size - changed.length);
      await file.close();
      await assert.rejects(open(path), { name: "ArchiveError", requirement });
    }
  }
});

/**
 * The bytes from the directory to the end of the archive.
 * @param {string} path
 * @param {number} size
 */
async function readTail(path, size) {
  const file = await openFile(path);
  const end = Buffer.alloc(98);
  await file.read(end, 0, 98, size - 98);
  const offset = Number(end.readBigUInt64LE(48));
  const tail = Buffer.alloc(size - offset);
  await file.read(tail, 0, tail.length, offset);
  await file.close();
  return tail;
}

test("Every beginning and every end of an archive is refused.", async () => {
  for (let length = 0; length < BYTES.length; length++) {
    await assert.rejects(open(BYTES.subarray(0, length)), ArchiveError);
    await assert.rejects(open(BYTES.subarray(BYTES.length - length)), ArchiveError);
  }
});
