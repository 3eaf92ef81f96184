/** Archives for tests, made byte by byte. Large ones are files with holes. */

import { open } from "node:fs/promises";

/**
 * @typedef {object} File
 * @property {string} name
 * @property {number} size of the payload
 * @property {Uint8Array} [bytes] of the payload; without them it is all zeros
 */

/**
 * Numbers, each in this many bytes.
 * @param {number} bytes
 * @param {number[]} parts
 */
function littleEndian(bytes, parts) {
  const buffer = Buffer.alloc(bytes * parts.length);
  for (const [index, part] of parts.entries()) {
    if (bytes === 8) buffer.writeBigUInt64LE(BigInt(part), index * bytes);
    else buffer.writeUIntLE(part, index * bytes, bytes);
  }
  return buffer;
}
/** @param {number[]} parts */
const u16 = (...parts) => littleEndian(2, parts);
/** @param {number[]} parts */
const u32 = (...parts) => littleEndian(4, parts);
/** @param {number[]} parts */
const u64 = (...parts) => littleEndian(8, parts);
const FULL = 0xffffffff;

/** @param {Uint8Array} bytes */
export function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

/**
 * @param {number | bigint} value
 * @returns {Buffer}
 */
export function varint(value) {
  const bytes = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

/**
 * A field of a message: a number, or a value with a length.
 * @param {number} number
 * @param {number | bigint | string | Uint8Array} value
 */
export function field(number, value) {
  if (typeof value === "number" || typeof value === "bigint") return Buffer.concat([varint(number * 8), varint(value)]);
  const bytes = Buffer.from(value);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

/**
 * A TensorProto of bytes (UINT8), whose data are an entry.
 * @param {string} location
 * @param {number} size
 */
export function tensor(location, size) {
  const externalData = Object.entries({ location, length: `${size}`, offset: "0" });
  return Buffer.concat([
    field(1, size),
    field(2, 2),
    field(8, location),
    ...externalData.map(([key, value]) => field(13, Buffer.concat([field(1, key), field(2, value)]))),
    field(14, 1),
  ]);
}

/**
 * A ModelProto with these initializers, and text to make it longer.
 * @param {Uint8Array[]} initializers
 * @param {number} textBytes
 */
export function model(initializers, textBytes = 0) {
  const graph = Buffer.concat([field(2, "g"), ...initializers.map((each) => field(5, each))]);
  return Buffer.concat([field(1, 10), field(6, Buffer.alloc(textBytes, 0x61)), field(7, graph)]);
}

/**
 * The pieces of an archive and their offsets. Between the pieces are zeros.
 * @param {File[]} files including the graph
 * @param {number} alignment
 */
function pieces(files, alignment) {
  /** @type {[number, Uint8Array][]} */
  const parts = [];
  const directory = [];
  let at = 0;
  for (const { name, size, bytes } of files) {
    const wide = size >= FULL;
    const zip64 = wide ? Buffer.concat([u16(1, 16), u64(size, size)]) : Buffer.alloc(0);
    const fixed = 30 + name.length + 4 + zip64.length;
    const padding = (alignment - ((at + fixed) % alignment)) % alignment;
    const extra = Buffer.concat([u16(0x5a4f, padding), Buffer.alloc(padding), zip64]);
    const needed = wide || at >= FULL ? 45 : 10;
    const sizes = wide ? u32(FULL, FULL) : u32(size, size);
    const common = Buffer.concat([u16(needed, 0, 0, 0, 33), u32(bytes ? crc32(bytes) : 0), sizes, u16(name.length)]);
    parts.push([at, Buffer.concat([u32(0x04034b50), common, u16(extra.length), Buffer.from(name), extra])]);
    const values = [...(wide ? [size, size] : []), ...(at >= FULL ? [at] : [])];
    const record = values.length > 0 ? Buffer.concat([u16(1, values.length * 8), u64(...values)]) : Buffer.alloc(0);
    const rest = Buffer.concat([u16(record.length, 0, 0, 0), u32(0, Math.min(at, FULL))]);
    directory.push(Buffer.concat([u32(0x02014b50), u16(45), common, rest, Buffer.from(name), record]));
    at += 30 + name.length + extra.length;
    if (bytes) parts.push([at, bytes]);
    at += size;
  }
  const bytes = Buffer.concat(directory);
  const count = files.length;
  parts.push([at, bytes]);
  const end = at + bytes.length;
  if (count >= 0xffff || at >= FULL || bytes.length >= FULL) {
    const counts = u64(count, count, bytes.length, at);
    parts.push([end, Buffer.concat([u32(0x06064b50), u64(44), u16(45, 45), u32(0, 0), counts])]);
    parts.push([end + 56, Buffer.concat([u32(0x07064b50, 0), u64(end), u32(1)])]);
  }
  const last = parts.at(-1);
  const entries = Math.min(count, 0xffff);
  const record = [u32(0x06054b50), u16(0, 0, entries, entries), u32(bytes.length, Math.min(at, FULL)), u16(0)];
  parts.push([(last?.[0] ?? 0) + (last?.[1].length ?? 0), Buffer.concat(record)]);
  return parts;
}

/**
 * An archive with these weights, as bytes.
 * @param {File[]} weights
 * @param {{ textBytes?: number, alignment?: number, graph?: Uint8Array }} [options] `textBytes` make the graph longer
 */
export function archive(weights, options = {}) {
  const parts = pieces(withGraph(weights, options), options.alignment ?? 64);
  const [offset, end] = parts.at(-1) ?? [0, Buffer.alloc(0)];
  const bytes = new Uint8Array(offset + end.length);
  for (const [at, part] of parts) bytes.set(part, at);
  return bytes;
}

/**
 * Writes the same archive to a file, with holes where payloads are zeros. Gives its size.
 * @param {string} path
 * @param {File[]} weights
 * @param {{ textBytes?: number, alignment?: number, graph?: Uint8Array }} [options]
 */
export async function archiveFile(path, weights, options = {}) {
  const parts = pieces(withGraph(weights, options), options.alignment ?? 64);
  const file = await open(path, "w");
  for (const [at, part] of parts) await file.write(part, 0, part.length, at);
  const { size } = await file.stat();
  await file.close();
  return size;
}

/**
 * An archive of these files, which must have the right names and order.
 * @param {File[]} files
 */
export function archiveOf(files) {
  const bytes = new Uint8Array(files.reduce((size, file) => size + file.size + 400, 1000));
  let size = 0;
  for (const [at, part] of pieces(files, 64)) {
    bytes.set(part, at);
    size = at + part.length;
  }
  return bytes.slice(0, size);
}

/**
 * @param {File[]} weights
 * @param {{ textBytes?: number, graph?: Uint8Array }} options
 */
function withGraph(weights, options) {
  const initializers = weights.map(({ name, size }) => tensor(name, size));
  const bytes = options.graph ?? model(initializers, options.textBytes ?? 0);
  return [...weights, { name: "__MODEL_PROTO", size: bytes.length, bytes }];
}
