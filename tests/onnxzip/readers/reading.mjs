// Prints what a package of npm reads of each archive that is named: a line with its entries and their bytes, or "!".
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [name, ...paths] = process.argv.slice(2);
const library = createRequire(process.cwd() + "/")(name); // of the folder in which it was installed
const hex = (data) => Buffer.from(data).toString("hex");

async function jszip(data) {
  const archive = await library.loadAsync(data, { checkCRC32: true });
  const entries = Object.values(archive.files).map(async (entry) => [entry.name, await entry.async("nodebuffer")]);
  return Promise.all(entries);
}

function yauzl(data) {
  return new Promise((resolve, reject) => {
    library.fromBuffer(data, { lazyEntries: true }, (error, archive) => {
      if (error) return reject(error);
      const entries = [];
      archive.on("error", reject);
      archive.on("end", () => resolve(entries));
      archive.on("entry", (entry) =>
        archive.openReadStream(entry, (error, stream) => {
          if (error) return reject(error);
          const chunks = [];
          stream.on("error", reject);
          stream.on("data", (chunk) => chunks.push(chunk));
          stream.on("end", () => {
            entries.push([entry.fileName, Buffer.concat(chunks)]);
            archive.readEntry();
          });
        }),
      );
      archive.readEntry();
    });
  });
}

for (const path of paths) {
  try {
    const entries = await { jszip, yauzl }[name](readFileSync(path));
    console.log(entries.map(([entry, data]) => `${hex(entry)}=${hex(data)}`).join(","));
  } catch {
    console.log("!");
  }
}
