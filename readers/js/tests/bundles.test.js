/** Archives with several models, files and hashes. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { open } from "../onnxz.js";
import { archiveOf, model, tensor } from "./archives.js";
import { serve } from "./server.js";

/** @param {string} name @param {Uint8Array} bytes */
const file = (name, bytes) => ({ name, size: bytes.length, bytes });

const WEIGHTS = [file("w", new Uint8Array(100).fill(1)), file("v", new Uint8Array(50).fill(2))];
const FILES = [file("files/tokenizer.json", Buffer.from("{}"))];
const ENCODER = model([tensor("w", 100)]);
const DECODER = model([tensor("v", 50), tensor("w", 100)]);
const GRAPHS = [file("__MODEL_PROTO_encoder", ENCODER), file("__MODEL_PROTO_decoder", DECODER)];
const LINES = [...WEIGHTS, ...FILES, ...GRAPHS].map(
  ({ name, bytes }) => `${createHash("sha256").update(bytes).digest("hex")}  ${name}\n`,
);
const BYTES = archiveOf([...WEIGHTS, ...FILES, file("__SHA256SUMS", Buffer.from(LINES.join(""))), ...GRAPHS]);

/** @param {import("../onnxz.js").Archive} archive */
async function checkBundle(archive) {
  assert.deepEqual(archive.models, ["encoder", "decoder"]);
  assert.deepEqual(
    archive.files.map(({ name }) => name),
    ["files/tokenizer.json"],
  );
  assert.deepEqual(
    archive.tensors.map((each) => [each.model, each.name]),
    [
      ["encoder", "w"],
      ["decoder", "v"],
      ["decoder", "w"],
    ],
  );
  assert.deepEqual(Buffer.from(await archive.graph("encoder")), ENCODER);
  const { model: graph, externalData } = await archive.model("encoder");
  assert.deepEqual(Buffer.from(graph), ENCODER);
  assert.deepEqual(
    externalData.map(({ path }) => path),
    ["w"],
  );
  assert.equal(Buffer.from(await archive.read("files/tokenizer.json")).toString(), "{}");
  await assert.rejects(archive.graph(), RangeError);
  await assert.rejects(archive.model("other"), RangeError);
  await archive.verify();
}

test("A bundle gives each model by its name, and the files, from bytes and by ranges.", async (context) => {
  await checkBundle(await open(BYTES));
  const folder = await mkdtemp(join(tmpdir(), "onnxz-bundle-"));
  context.after(() => rm(folder, { recursive: true }));
  const path = join(folder, "bundle.onnxz");
  await writeFile(path, BYTES);
  const server = await serve(path);
  context.after(() => server.close());
  await checkBundle(await open(server.address));
});

test("A single model with a name is taken without it.", async () => {
  const archive = await open(archiveOf([...WEIGHTS, file("__MODEL_PROTO_decoder", DECODER)]));
  assert.deepEqual(Buffer.from(await archive.graph()), DECODER);
});
