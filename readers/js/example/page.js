/** Shows the content of an `.onnxz` that a user drops, chooses or fetches, and runs it with onnxruntime-web. */

import { open } from "onnxz";
import * as ort from "onnxruntime-web";

/** Names of `TensorProto.DataType`, by number. */
const DATA_TYPES =
  "undefined float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128 bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2 float6e2m3 float6e3m2".split(
    " ",
  );
/** The array for the numbers of an input. If the browser has no array for float16, this gives the bits. */
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: globalThis.Float16Array ?? Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};
const HALF_ONE = 0x3c00;
const SHOWN_VALUES = 8;

/** @param {string} id */
const element = (id) => document.getElementById(id);

/** The archive that is shown, and its session. */
let archive;
let session;

/** A row of a table: texts, which are never read as HTML, or elements. */
function row(cells, numbers = 0) {
  const tr = document.createElement("tr");
  for (const [index, cell] of cells.entries()) {
    const td = document.createElement("td");
    td.append(cell);
    if (index >= cells.length - numbers) td.className = "number";
    tr.append(td);
  }
  return tr;
}

/** A field for each dim of an input. A user can change the dims that the model leaves open. */
function shapeFields({ name, shape }) {
  const span = document.createElement("span");
  for (const dim of shape) {
    const field = document.createElement("input");
    field.type = "number";
    field.min = "0";
    field.value = typeof dim === "number" ? dim : 1;
    field.readOnly = typeof dim === "number";
    field.title = field.ariaLabel = typeof dim === "number" ? `${name}` : `${name}: ${dim}`;
    span.append(field, " ");
  }
  return span;
}

/**
 * Opens an archive and shows it. From an address, this fetches only the directory and the graph.
 * @param {File | string} source
 * @param {string} name
 */
async function show(source, name) {
  for (const id of ["model", "load", "run", "results"]) element(id).hidden = true;
  element("error").textContent = "";
  await session?.release();
  session = undefined;
  await archive?.close();
  archive = await open(source);
  const weights = archive.entries.slice(0, -1);
  const graph = archive.entries.at(-1);
  element("title").textContent = name;
  element("summary").textContent =
    `${archive.size.toLocaleString()} bytes: a graph of ${graph.size.toLocaleString()} and ` +
    `${weights.length} entries of weights of ${weights.reduce((sum, { size }) => sum + size, 0).toLocaleString()}.`;
  element("tensors").replaceChildren(
    ...archive.tensors.map((tensor) =>
      row(
        [
          tensor.name,
          DATA_TYPES[tensor.dataType],
          tensor.dims.join(" × "),
          tensor.location,
          tensor.offset.toLocaleString(),
          tensor.size.toLocaleString(),
        ],
        2,
      ),
    ),
  );
  element("model").hidden = false;
  element("load").hidden = typeof source !== "string";
  if (typeof source !== "string") await load();
}

/** Reads the weights, and shows the fields for the inputs. */
async function load() {
  element("error").textContent = "";
  const { model, externalData } = await archive.model();
  session = await ort.InferenceSession.create(model, { externalData });
  element("inputs").replaceChildren(
    ...session.inputMetadata.map((input) => row([input.name, input.type, input.isTensor ? shapeFields(input) : ""])),
  );
  element("time").textContent = "";
  element("load").hidden = true;
  element("run").hidden = false;
}

/** An input of the model, filled as the user chose. */
function fill({ name, type }, dims) {
  const Data = ARRAYS[type];
  if (Data === undefined) throw new Error(`this page cannot fill the input ${name}, of type ${type}`);
  const data = new Data(dims.reduce((product, dim) => product * dim, 1));
  const big = data instanceof BigInt64Array || data instanceof BigUint64Array;
  const how = element("fill").value;
  if (how === "ones") data.fill(big ? 1n : type === "float16" && data instanceof Uint16Array ? HALF_ONE : 1);
  if (how === "random") {
    const floats = type.startsWith("float") && !(data instanceof Uint16Array);
    for (const index of data.keys()) {
      data[index] = floats ? Math.random() : big ? BigInt(Math.random() < 0.5) : Number(Math.random() < 0.5);
    }
  }
  return new ort.Tensor(type, data, dims);
}

/** Runs the model, and shows its outputs. */
async function run() {
  element("error").textContent = "";
  const feeds = {};
  for (const [index, input] of session.inputMetadata.entries()) {
    if (!input.isTensor) throw new Error(`this page cannot fill the input ${input.name}, which is no tensor`);
    const fields = element("inputs").rows[index].querySelectorAll("input");
    feeds[input.name] = fill(
      input,
      Array.from(fields, (field) => Number(field.value)),
    );
  }
  const before = performance.now();
  const found = await session.run(feeds);
  const took = performance.now() - before;
  element("outputs").replaceChildren(
    ...session.outputNames.map((name) => {
      const { type, dims, data } = found[name];
      const values = Array.from(data.slice(0, SHOWN_VALUES), (value) =>
        typeof value === "number" ? Number(value.toPrecision(6)) : value,
      );
      return row([name, type, dims.join(" × "), values.join(", ") + (data.length > SHOWN_VALUES ? ", ..." : "")]);
    }),
  );
  element("results").hidden = false;
  element("time").textContent = `${took.toFixed(1)} ms`;
}

/** Runs an action, unless one is running already, and shows its error on the page. */
async function attempt(action) {
  if (document.body.ariaBusy === "true") return;
  document.body.ariaBusy = "true";
  try {
    await action();
  } catch (error) {
    element("error").textContent = `${error.name ?? "Error"}: ${error.message ?? error}`;
  } finally {
    document.body.ariaBusy = "false";
  }
}

const drop = element("drop");
addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
addEventListener("dragleave", () => drop.classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  const [file] = event.dataTransfer.files;
  if (file !== undefined) attempt(() => show(file, file.name));
});
element("file").addEventListener("change", ({ target }) => {
  const [file] = target.files;
  if (file !== undefined) attempt(() => show(file, file.name));
});
element("fetch").addEventListener("submit", (event) => {
  event.preventDefault();
  const address = element("address").value;
  attempt(() => show(address, address));
});
element("load").addEventListener("click", () => attempt(load));
element("run").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(run);
});
