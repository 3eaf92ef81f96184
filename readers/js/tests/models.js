/** Models to run, as `.onnx` and `.onnxz`: the example of the repository and, if present, `../shared/models`. */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { inflateRawSync } from "node:zlib";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SHARED = join(ROOT, "..", "shared", "models");

/**
 * @typedef {object} TestModel
 * @property {string} name
 * @property {string} onnx path
 * @property {string} onnxz path
 * @property {string} [npz] path of the inputs and the outputs of a reference
 */

/**
 * An array of NumPy.
 * @typedef {object} NumpyArray
 * @property {string} dtype such as `<f4`
 * @property {number[]} dims
 * @property {Uint8Array} bytes
 */

/**
 * All models, or those with these names, converted with this repository into a folder that `remove` deletes.
 * @param {string[]} [names]
 * @returns {Promise<{ models: TestModel[], remove: () => Promise<void> }>}
 */
export async function convertModels(names) {
  const shared = existsSync(SHARED)
    ? readdirSync(SHARED)
        .filter((name) => name.endsWith(".onnx"))
        .sort()
    : [];
  const all = [join(ROOT, "examples", "digits.onnx"), ...shared.map((name) => join(SHARED, name))];
  const paths = all.filter((path) => names?.includes(basename(path, ".onnx")) ?? true);
  const folder = await mkdtemp(join(tmpdir(), "onnxz-models-"));
  const models = paths.map((onnx) => {
    const name = basename(onnx, ".onnx");
    const npz = onnx.replace(/onnx$/, "npz");
    return { name, onnx, onnxz: join(folder, `${name}.onnxz`), ...(existsSync(npz) ? { npz } : {}) };
  });
  // One process for all models, since starting a process takes most of the time.
  const code = "import sys, formats\nfor a, b in zip(sys.argv[1::2], sys.argv[2::2]): formats.convert(a, b)";
  const conversions = models.flatMap(({ onnx, onnxz }) => [onnx, onnxz]);
  execFileSync("python3", ["-c", code, ...conversions], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  return { models, remove: () => rm(folder, { recursive: true }) };
}

/**
 * Writes an archive with an encoder, two decoders and a tokenizer, and returns what onnxruntime translates in Python.
 * @param {string} path of the archive
 * @returns {{ [sentence: string]: string }}
 */
export function packTranslation(path) {
  const program = join("tests", "onnxzip", "translation.py");
  return JSON.parse(execFileSync("python3", [program, path], { cwd: ROOT, encoding: "utf8" }));
}

/** The reason why models cannot be converted, or undefined. In CI nothing may be missing. */
export function missingFormats() {
  try {
    execFileSync("python3", ["-c", "import formats"], { cwd: ROOT, stdio: "ignore" });
    return undefined;
  } catch (error) {
    if (process.env.CI) throw error;
    return "python3 does not find the package formats";
  }
}

/**
 * The arrays of an `.npz` file.
 * @param {string} path
 * @returns {Map<string, NumpyArray>}
 */
export function readNpz(path) {
  const file = readFileSync(path);
  const arrays = new Map();
  let at = file.readUInt32LE(file.length - 6);
  for (let left = file.readUInt16LE(file.length - 12); left > 0; left--) {
    const [method, size, nameBytes] = [
      file.readUInt16LE(at + 10),
      file.readUInt32LE(at + 20),
      file.readUInt16LE(at + 28),
    ];
    const header = file.readUInt32LE(at + 42);
    const name = file.toString("latin1", at + 46, at + 46 + nameBytes).replace(/\.npy$/, "");
    const start = header + 30 + file.readUInt16LE(header + 26) + file.readUInt16LE(header + 28);
    const stored = file.subarray(start, start + size);
    arrays.set(name, readNpy(method === 8 ? inflateRawSync(stored) : stored));
    at += 46 + nameBytes + file.readUInt16LE(at + 30) + file.readUInt16LE(at + 32);
  }
  return arrays;
}

/**
 * @param {Uint8Array} npy
 * @returns {NumpyArray}
 */
function readNpy(npy) {
  const bytes = Buffer.from(npy);
  const end = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString("latin1", 10, end);
  const dtype = /'descr': '([^']+)'/.exec(header)?.[1] ?? "";
  const dims =
    /'shape': \(([^)]*)\)/
      .exec(header)?.[1]
      ?.split(",")
      .filter((dim) => dim.trim() !== "")
      .map(Number) ?? [];
  if (/'fortran_order': True/.test(header)) throw new Error("a reference is in the order of Fortran");
  return { dtype, dims, bytes: Uint8Array.from(bytes.subarray(end)) };
}

/**
 * The numbers of an array, or of a tensor of onnxruntime, as floats.
 * @param {string} type of NumPy or of onnxruntime
 * @param {ArrayBufferView} data
 * @returns {number[]}
 */
export function numbers(type, data) {
  const { buffer, byteOffset, byteLength } = data;
  if (type === "<f2" || type === "float16") {
    return Array.from(new Uint16Array(buffer, byteOffset, byteLength / 2), (half) => {
      const [sign, exponent, fraction] = [half >> 15 ? -1 : 1, (half >> 10) & 31, half & 1023];
      if (exponent === 31) return fraction ? NaN : sign * Infinity;
      return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
    });
  }
  if (type === "<f4" || type === "float32") return Array.from(new Float32Array(buffer, byteOffset, byteLength / 4));
  if (type === "<i8" || type === "int64")
    return Array.from(new BigInt64Array(buffer, byteOffset, byteLength / 8), Number);
  throw new Error(`no test knows numbers of type ${type}`);
}

/** The type of onnxruntime for one of NumPy. */
export const TYPES = new Map([
  ["<f2", "float16"],
  ["<f4", "float32"],
  ["<i8", "int64"],
]);

/**
 * The largest difference, divided by the largest expected number.
 * @param {number[]} expected
 * @param {number[]} found
 */
export function difference(expected, found) {
  if (expected.length !== found.length) return Infinity;
  let most = 0;
  let scale = 1e-6;
  for (const [index, value] of expected.entries()) {
    const apart = Math.abs(value - (found[index] ?? NaN));
    if (!(apart <= most)) most = Number.isNaN(apart) ? Infinity : apart;
    scale = Math.max(scale, Math.abs(value));
  }
  return most / scale;
}
