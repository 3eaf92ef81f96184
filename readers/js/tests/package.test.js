/** The published package: its files, that it needs nothing else, and that its types fit both runtimes. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { archive } from "./archives.js";
import { ROOT, convertModels, missingFormats } from "./models.js";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const skip = missingFormats() ?? false;
/** A program of a user, in TypeScript. */
const PROGRAM = `
import { ArchiveError, open, type Archive, type Entry, type Model, type Source, type Tensor } from "onnxz";
import { InferenceSession as Node } from "onnxruntime-node";
import { InferenceSession as Web } from "onnxruntime-web";
import { open as openFile } from "node:fs/promises";

export async function use(source: Source): Promise<[Node, Web]> {
  const archive: Archive = await open(source, { headers: { Authorization: "x" }, signal: AbortSignal.timeout(1000) });
  const sizes: number[] = archive.entries.map((entry: Entry) => entry.size);
  const dims: bigint[] = archive.tensors.flatMap((tensor: Tensor) => tensor.dims);
  const { model, externalData }: Model = await archive.model();
  console.log(sizes, dims, GRAPH(archive));
  await archive.close();
  return [await Node.create(model, { externalData }), await Web.create(model, { externalData })];
}
const GRAPH = (archive: Archive): Promise<Uint8Array> => archive.graph();
export const sources = async (): Promise<Source[]> => [new Uint8Array(), new Blob(), new URL("http://x"), await openFile("x")];
export const requirement = (error: unknown): string => (error instanceof ArchiveError ? error.requirement : "");
// @ts-expect-error a number is no source
open(7);
`;

/** @type {string} */
let folder;
/** @type {string} */
let installed;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "onnxz-package-"));
  installed = join(folder, "node_modules", "onnxz");
  await mkdir(installed, { recursive: true });
  const [{ filename }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--silent", "--pack-destination", folder], {
      cwd: PACKAGE,
      encoding: "utf8",
    }),
  );
  execFileSync("tar", ["-xzf", join(folder, filename), "--strip-components=1", "-C", installed]);
});
after(async () => rm(folder, { recursive: true }));

test("The package has one module, its types, its page and the licence, and depends on nothing.", async () => {
  assert.deepEqual((await readdir(installed)).sort(), [
    "LICENSE",
    "README.md",
    "onnxz.d.ts",
    "onnxz.js",
    "package.json",
  ]);
  const description = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  assert.deepEqual([description.dependencies, description.peerDependencies], [undefined, undefined]);
  const text = await readFile(join(installed, "onnxz.js"), "utf8");
  assert.doesNotMatch(text, /^import /m);
});

test("The package runs alone.", async () => {
  await writeFile(join(folder, "model.onnxz"), archive([{ name: "w", size: 8 }]));
  const code = `import { open } from "onnxz"; console.log((await (await open("model.onnxz")).model()).externalData[0].data.length)`;
  await writeFile(join(folder, "program.mjs"), code);
  assert.equal(execFileSync("node", ["program.mjs"], { cwd: folder, encoding: "utf8" }), "8\n");
});

test("A program in TypeScript gets its types.", async () => {
  for (const name of ["onnxruntime-node", "onnxruntime-web", "onnxruntime-common", "@types", "undici-types"]) {
    await symlink(join(PACKAGE, "node_modules", name), join(folder, "node_modules", name));
  }
  await writeFile(join(folder, "program.ts"), PROGRAM);
  const options = [
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--types",
    "node",
  ];
  const tsc = join(PACKAGE, "node_modules", "typescript", "bin", "tsc");
  execFileSync("node", [tsc, ...options, "--lib", "es2022,dom,dom.iterable", "program.ts"], {
    cwd: folder,
    stdio: "pipe",
    encoding: "utf8",
  });
});

test("The examples of the READMEs run.", { skip }, async () => {
  const paths = [join(PACKAGE, "README.md"), join(ROOT, "README.md")];
  const texts = await Promise.all(paths.map((path) => readFile(path, "utf8")));
  const blocks = texts.flatMap((text) =>
    [...text.matchAll(/^```javascript\n(.*?)^```$/gms)].map(([, block]) => block ?? ""),
  );
  // An example that begins with an import is a whole program. The others are parts.
  const programs = blocks.filter((block) => block.startsWith("import "));
  assert.ok(programs.length >= 3);
  const { models, remove } = await convertModels(["digits"]);
  await copyFile(models[0]?.onnxz ?? "", join(folder, "digits.onnxz"));
  await remove();
  for (const program of programs) {
    await writeFile(join(folder, "example.mjs"), program);
    execFileSync("node", ["example.mjs"], { cwd: folder, stdio: "pipe" });
  }
});
