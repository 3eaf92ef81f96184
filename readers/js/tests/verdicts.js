/**
 * Prints the verdict of the reader on archives. Each line of stdin is a path, and the answer is a line of JSON.
 *
 * Either `{"ok":true,"graph":SHA-256 of the last one,"entries":[[name,file_offset,nbytes],...],"tensors":[[location,file_offset,nbytes],...]}`
 * or `{"ok":false,"requirement":number in docs/onnxz.md,"message":text}`; if the system refuses a file, the requirement is empty.
 */

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

import { ArchiveError, open } from "../onnxz.js";

/** @param {string} path */
async function verdict(path) {
  let archive;
  try {
    archive = await open(path);
    return {
      ok: true,
      graph: createHash("sha256")
        .update(await archive.graph(archive.models.at(-1)))
        .digest("hex"),
      entries: archive.entries.map(({ name, offset, size }) => [name, offset, size]),
      tensors: archive.tensors.map(({ location, offset, size }) => [location, offset, size]),
    };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { ok: false, requirement: error instanceof ArchiveError ? error.requirement : "", message: error.message };
  } finally {
    await archive?.close();
  }
}

/**
 * JSON in ASCII, so that every reader finds the same line ends.
 * @param {unknown} value
 */
const asciiJson = (value) =>
  JSON.stringify(value).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

for await (const path of createInterface({ input: process.stdin })) {
  process.stdout.write(`${asciiJson(await verdict(path))}\n`);
}
