/** The verdicts on the test vectors of the specification, which are the same from every kind of source. */

import assert from "node:assert/strict";
import { mkdtemp, open as openFile, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { ArchiveError, open } from "../onnxz.js";
import { ROOT } from "./models.js";
import { serve } from "./server.js";

/**
 * The number of the requirement that an archive breaks, or undefined.
 * @param {import("../onnxz.js").Source} source
 */
async function broken(source) {
  try {
    const archive = await open(source);
    await archive.check();
    await archive.close();
    return undefined;
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    return error.requirement;
  }
}

/**
 * A part of a large archive; tests/onnxzip/golden/README.md says what they stand for.
 * @typedef {{ hex?: string, zeros?: number, count?: number, of?: Part[], letters?: number, u32?: [number, number] }} Part
 */

/**
 * The bytes of a part that is no hole.
 * @param {Part} part
 * @param {number} round
 * @returns {Buffer}
 */
function bytesOf(part, round = 0) {
  if (part.hex !== undefined) return Buffer.from(part.hex, "hex");
  if (part.u32 !== undefined) {
    const number = Buffer.alloc(4);
    number.writeUInt32LE(part.u32[0] + round * part.u32[1]);
    return number;
  }
  if (part.letters !== undefined) {
    const digits = [...round.toString(26).padStart(part.letters, "0")].map((digit) => parseInt(digit, 26));
    return Buffer.from(digits.map((digit) => digit + 0x61));
  }
  const rounds = Array.from({ length: part.count ?? 0 }, (_, index) => index);
  return Buffer.concat(rounds.flatMap((index) => (part.of ?? []).map((each) => bytesOf(each, index))));
}

/**
 * @param {string} path
 * @param {Part[]} parts
 */
async function writeParts(path, parts) {
  const file = await openFile(path, "w");
  let at = 0;
  for (const part of parts) {
    if (part.zeros !== undefined) at += part.zeros;
    else at += (await file.write(bytesOf(part), 0, undefined, at)).bytesWritten;
  }
  await file.close();
}

test("Each large vector is refused or taken, from a file.", async (context) => {
  const vectors = JSON.parse(await readFile(join(ROOT, "tests", "onnxzip", "golden", "large.json"), "utf8"));
  const folder = await mkdtemp(join(tmpdir(), "onnxz-vectors-"));
  context.after(() => rm(folder, { recursive: true }));
  const path = join(folder, "large.onnxz");
  for (const { name, refused, taken } of vectors) {
    for (const [parts, isTaken] of [
      [refused, false],
      [taken, true],
    ]) {
      if (parts === undefined) continue;
      await writeParts(path, parts);
      const verdict = await broken(path);
      assert.equal(verdict === undefined, isTaken, `${name}: ${verdict}`);
    }
  }
});

test("Each vector is refused or taken, from bytes, from a Blob, from a file and by ranges.", async (context) => {
  const vectors = JSON.parse(await readFile(join(ROOT, "tests", "onnxzip", "golden", "vectors.json"), "utf8"));
  const specification = await readFile(join(ROOT, "docs", "onnxz.md"), "utf8");
  const folder = await mkdtemp(join(tmpdir(), "onnxz-vectors-"));
  context.after(() => rm(folder, { recursive: true }));
  for (const { name, refused, taken } of vectors) {
    for (const [hex, isTaken] of [
      [refused, false],
      [taken, true],
    ]) {
      if (hex === undefined) continue; // what is free has no archive that is refused
      const bytes = Buffer.from(hex, "hex");
      const path = join(folder, "vector.onnxz");
      await writeFile(path, bytes);
      const verdict = await broken(bytes);
      assert.equal(verdict === undefined, isTaken, `${name}: ${verdict}`);
      if (verdict !== undefined) assert.ok(specification.includes(`- **${verdict}** `), `${verdict} is no requirement`);
      assert.equal(await broken(new Blob([bytes])), verdict, name);
      assert.equal(await broken(path), verdict, name);
      if (bytes.length === 0) continue; // no server has a range of it
      const server = await serve(path);
      const remote = await broken(server.address);
      await server.close();
      assert.equal(remote === undefined, isTaken, name); // which of several requirements is free
    }
  }
});
