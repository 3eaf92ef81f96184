/** onnxruntime-node gives the same bits for an `.onnxz` as for the `.onnx`, and the outputs of the references. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { open } from "../onnxz.js";
import { ROOT, TYPES, convertModels, difference, missingFormats, numbers, packTranslation, readNpz } from "./models.js";
import { translations } from "./translation.js";

const skip = missingFormats() ?? false;
// onnxruntime-node 1.30 does not read a Float16Array, which Node 24 has. Without that class it takes the bits.
delete (/** @type {any} */ (globalThis).Float16Array);

/**
 * The inputs for a model: those of its reference, or else ones.
 * @param {import("onnxruntime-node")} ort
 * @param {import("onnxruntime-node").InferenceSession} session
 * @param {ReturnType<typeof readNpz> | undefined} reference
 */
function feeds(ort, session, reference) {
  return Object.fromEntries(
    session.inputMetadata.map((value) => {
      if (!value.isTensor) throw new Error("an input is no tensor");
      const array = reference?.get(`in_${value.name}`);
      if (array === undefined) {
        const dims = value.shape.map((dim) => (typeof dim === "number" ? dim : 1));
        return [value.name, new ort.Tensor("float32", new Float32Array(dims.reduce((a, b) => a * b, 1)).fill(1), dims)];
      }
      const Data = /** @type {any} */ ({ "<f2": Uint16Array, "<f4": Float32Array, "<i8": BigInt64Array })[array.dtype];
      const type = /** @type {any} */ (TYPES.get(array.dtype));
      return [value.name, new ort.Tensor(type, new Data(array.bytes.buffer), array.dims)];
    }),
  );
}

test(
  "Every model gives the same from the .onnxz as from the .onnx, and what its reference says.",
  { skip },
  async (context) => {
    const ort = await import("onnxruntime-node");
    const { models, remove } = await convertModels();
    context.after(remove);
    const options = /** @type {const} */ ({ logSeverityLevel: 3, intraOpNumThreads: 1 });
    for (const { name, onnx, onnxz, npz } of models) {
      await context.test(name, async (each) => {
        const archive = await open(onnxz);
        const { model, externalData } = await archive.model();
        const session = await ort.InferenceSession.create(model, { ...options, externalData });
        const plain = await ort.InferenceSession.create(await readFile(onnx), options);
        const reference = npz ? readNpz(npz) : undefined;
        const found = await session.run(feeds(ort, session, reference));
        const expected = await plain.run(feeds(ort, plain, reference));
        let most = 0;
        for (const [index, output] of session.outputNames.entries()) {
          const value = /** @type {import("onnxruntime-node").Tensor} */ (found[output]);
          assert.deepEqual(value.dims, expected[output]?.dims);
          assert.deepEqual(value.data, expected[output]?.data);
          const array = reference?.get(`out_${index}`);
          if (array === undefined) continue;
          const apart = difference(
            numbers(array.dtype, array.bytes),
            numbers(value.type, /** @type {any} */ (value.data)),
          );
          const tolerance = /fp16/.test(name) ? 0.02 : /q8/.test(name) ? 0.02 : 1e-4;
          assert.ok(apart <= tolerance, `output ${index} is ${apart} apart from the reference`);
          most = Math.max(most, apart);
        }
        each.diagnostic(`${externalData.length} entries of weights; ${most.toExponential(1)} from the reference`);
        await archive.close();
      });
    }
  },
);

test("Each model of one archive gives the same as its own file.", { skip }, async (context) => {
  const ort = await import("onnxruntime-node");
  const { models, remove } = await convertModels(["digits", "whisper_enc.dyn", "gpt2.dyn", "bert.dyn"]);
  context.after(remove);
  const bundle = join(dirname(models[0]?.onnxz ?? ""), "bundle.onnxz");
  const code = "import sys, formats\nformats.pack(sys.argv[2:], sys.argv[1])";
  const sources = models.map(({ onnx }, index) => `m${index}=${onnx}`);
  execFileSync("python3", ["-c", code, bundle, ...sources], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  const archive = await open(bundle);
  const options = /** @type {const} */ ({ logSeverityLevel: 3, intraOpNumThreads: 1 });
  for (const [index, { onnx, npz }] of models.entries()) {
    const { model, externalData } = await archive.model(`m${index}`);
    const session = await ort.InferenceSession.create(model, { ...options, externalData });
    const plain = await ort.InferenceSession.create(await readFile(onnx), options);
    const reference = npz ? readNpz(npz) : undefined;
    const found = await session.run(feeds(ort, session, reference));
    const expected = await plain.run(feeds(ort, plain, reference));
    for (const output of session.outputNames) assert.deepEqual(found[output]?.data, expected[output]?.data);
  }
});

test("An encoder and decoders with a past translate from one archive as in Python.", { skip }, async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "onnxz-translation-"));
  context.after(() => rm(folder, { recursive: true }));
  const path = join(folder, "translation.onnxz");
  const expected = packTranslation(path);
  const archive = await open(path);
  const found = await translations(await import("onnxruntime-node"), archive, Object.keys(expected));
  await archive.close();
  assert.ok(Object.keys(expected).length >= 3);
  assert.deepEqual(found, expected);
});
