/**
 * The verdicts on the test vectors of the specification, which are the same for every kind of source.
 * `tests/onnxzip/test_readers.py` compares vectors of more than 4 GiB, archives of models and mutants with other readers.
 */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
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
      if (hex === undefined) continue; // a free choice has no archive that a reader must refuse
      const bytes = Buffer.from(hex, "hex");
      const path = join(folder, "vector.onnxz");
      await writeFile(path, bytes);
      const verdict = await broken(bytes);
      assert.equal(verdict === undefined, isTaken, `${name}: ${verdict}`);
      if (verdict !== undefined) assert.ok(specification.includes(`- **${verdict}** `), `${verdict} is no requirement`);
      assert.equal(await broken(new Blob([bytes])), verdict, name);
      assert.equal(await broken(path), verdict, name);
      if (bytes.length === 0) continue; // a server has no range of an empty file
      const server = await serve(path);
      const remote = await broken(server.address);
      await server.close();
      assert.equal(remote === undefined, isTaken, name); // the reader may name any of several broken requirements
    }
  }
});
