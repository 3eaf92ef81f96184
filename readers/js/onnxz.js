/**
 * Reads `.onnxz` archives: ONNX models in one file, in which the weights have the same form as in memory.
 *
 * This is one module without dependencies, for Node and browsers. `open` accepts bytes, a Blob or File, a path or file
 * handle of Node, or an HTTP address. From an HTTP address, it fetches only what the program needs. `Archive.model` returns
 * what `InferenceSession.create` of onnxruntime-node and onnxruntime-web accepts.
 *
 * The specification is docs/onnxz.md. If an archive breaks one of its requirements, the module throws an `ArchiveError`
 * with the number of the requirement. Sizes are in bytes, and offsets are from the start of the archive.
 *
 * @module onnxz
 */

/**
 * What an archive can be opened from. A string that begins with `http://` or `https://` is an HTTP address. Any other
 * string is a path in Node, and an address relative to the page in a browser.
 * @typedef {Uint8Array | ArrayBuffer | Blob | URL | string | NodeFileHandle} Source
 */

/**
 * The part of a `FileHandle` of `node:fs/promises` that this module uses.
 * @typedef {object} NodeFileHandle
 * @property {(buffer: Uint8Array, offset: number, length: number, position: number) => Promise<{ bytesRead: number }>} read
 * @property {(options: { bigint: true }) => Promise<{ size: bigint, mtimeNs: bigint, ino: bigint }>} stat
 * @property {() => Promise<void>} close
 */

/**
 * How an HTTP address is read. For other sources, these options have no effect.
 * @typedef {object} OpenOptions
 * @property {HeadersInit} [headers] sent with every request, such as `Authorization`
 * @property {AbortSignal} [signal] ends requests
 * @property {typeof globalThis.fetch} [fetch] used instead of the global one
 */

/**
 * A file in the archive.
 * @typedef {object} Entry
 * @property {string} name
 * @property {number} offset where its bytes begin
 * @property {number} size
 * @property {number} crc32
 */

/**
 * A tensor of a graph whose bytes are an entry.
 * @typedef {object} Tensor
 * @property {string} name of the tensor; tensors in different graphs of a model can have the same name
 * @property {string | null} model the name of the model whose graph has the tensor; null for the default one
 * @property {bigint[]} dims
 * @property {number} dataType a value of `TensorProto.DataType`
 * @property {string} location the name of the entry
 * @property {number} offset where its bytes begin
 * @property {number} size
 */

/**
 * What `InferenceSession.create(model, { externalData })` accepts.
 * @typedef {object} Model
 * @property {Uint8Array} model the graph, a serialised ModelProto
 * @property {{ path: string, data: Uint8Array }[]} externalData its weights, in the order of the archive
 */

/** The name of the entry that is the default graph. The others have a `_` and the name of their model after it. */
export const GRAPH_NAME = "__MODEL_PROTO";
const GRAPH_PREFIX = `${GRAPH_NAME}_`;
const HASHES_NAME = "__SHA256SUMS";
const FILES_PREFIX = "files/";

/** The archive does not meet the specification, so no reader may accept it. */
export class ArchiveError extends Error {
  /**
   * @param {string} requirement
   * @param {string} message
   */
  constructor(requirement, message) {
    super(`${message} (${requirement})`);
    this.name = "ArchiveError";
    /** The number of the requirement in docs/onnxz.md that the archive does not meet. */
    this.requirement = requirement;
  }
}

/** The bytes cannot be read: the file changed, the server sends no ranges, or the data does not fit into memory. */
export class SourceError extends Error {
  /**
   * @param {string} message
   * @param {{ cause?: unknown }} [options]
   */
  constructor(message, options) {
    super(message, options);
    this.name = "SourceError";
  }
}

/**
 * A place from which bytes are read.
 * @typedef {object} ByteSource
 * @property {number} size
 * @property {boolean} remote whether each read is a request; then nothing is read before the program needs it
 * @property {number} rangeBytes the most bytes to read at once if the payloads of several entries are next to each other
 * @property {(offset: number, length: number) => Promise<Uint8Array>} read of a range within the size
 * @property {() => Promise<void>} close
 */

const REQUEST_BYTES = 64 * 2 ** 20;
const READ_BYTES = 2 ** 20;
const REQUESTS_AT_ONCE = 4;
/** The sizes of the first two requests: the first is for the size of the archive, the second is for the directory. */
const HEAD_BYTES = 1024;
const TAIL_BYTES = 256 * 1024;
/** Local headers are read together if the gaps between them and the whole range have at most these sizes. */
const HEADERS_APART_BYTES = 16 * 1024;
const HEADERS_BYTES = 2 ** 20;

/**
 * @param {number} length
 * @returns {Uint8Array}
 */
function allocate(length) {
  try {
    return new Uint8Array(length);
  } catch (cause) {
    throw new SourceError(`there is not enough memory for ${length} bytes`, { cause });
  }
}

/**
 * Bytes in memory. A read returns a view of them, not a copy.
 * @param {Uint8Array} bytes
 * @returns {ByteSource}
 */
function bytesSource(bytes) {
  return {
    size: bytes.length,
    remote: false,
    rangeBytes: 0,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
    close: async () => {},
  };
}

/**
 * @param {Blob} blob
 * @returns {ByteSource}
 */
function blobSource(blob) {
  /** @type {ByteSource["read"]} */
  async function read(offset, length) {
    let buffer;
    try {
      buffer = await blob.slice(offset, offset + length).arrayBuffer();
    } catch (cause) {
      throw new SourceError(`${length} bytes at ${offset} cannot be read; the file changed, or memory is short`, {
        cause,
      });
    }
    if (buffer.byteLength !== length) throw new SourceError("the file became shorter while it was read");
    return new Uint8Array(buffer);
  }
  return { size: blob.size, remote: false, rangeBytes: READ_BYTES, read, close: async () => {} };
}

/**
 * A file in Node. It must not change.
 * @param {NodeFileHandle} handle
 * @param {boolean} owned whether closing the archive closes the handle
 * @returns {Promise<ByteSource>}
 */
async function fileSource(handle, owned) {
  const first = await handle.stat({ bigint: true });
  if (first.size > BigInt(Number.MAX_SAFE_INTEGER)) throw new SourceError(`a file of ${first.size} bytes is too large`);
  /** @type {ByteSource["read"]} */
  async function read(offset, length) {
    const bytes = allocate(length);
    for (let done = 0; done < length;) {
      // Node reads at most 2 GiB - 1 at once.
      const step = Math.min(length - done, 2 ** 30);
      const { bytesRead } = await handle.read(bytes, done, step, offset + done);
      if (bytesRead === 0) throw new SourceError("the file became shorter while it was read");
      done += bytesRead;
    }
    const now = await handle.stat({ bigint: true });
    if (now.size !== first.size || now.mtimeNs !== first.mtimeNs) {
      throw new SourceError("the file has changed since it was opened; open it again");
    }
    return bytes;
  }
  const close = async () => (owned ? handle.close() : undefined);
  return { size: Number(first.size), remote: false, rangeBytes: READ_BYTES, read, close };
}

/**
 * A file on a server, read with range requests.
 *
 * The first request asks for the beginning, because the answer contains the size. It does not count from the end, because
 * a browser sends such a range to another origin only after an additional request (preflight). The second request asks for
 * the end, where the directory is, and often the graph. Both answers stay in memory.
 * @param {string} address
 * @param {OpenOptions} options
 * @returns {Promise<ByteSource>}
 */
async function httpSource(address, options) {
  const fetch = options.fetch ?? globalThis.fetch;
  /** @param {Headers} headers */
  const identify = (headers) => headers.get("etag") ?? headers.get("last-modified");
  /** @type {string | null} */
  let identity = null;
  /** @type {number | undefined} */
  let size;

  /**
   * @param {string} method
   * @param {string} [range]
   */
  async function request(method, range) {
    const headers = new Headers(options.headers);
    if (range !== undefined) headers.set("Range", range);
    try {
      return await fetch(address, { method, headers, signal: options.signal ?? null });
    } catch (cause) {
      if (options.signal?.aborted) throw cause;
      throw new SourceError(`${address} cannot be fetched: ${cause instanceof Error ? cause.message : cause}`, {
        cause,
      });
    }
  }

  /**
   * @param {Response} response
   * @param {string} message
   * @returns {Promise<never>}
   */
  async function refuse(response, message) {
    await response.body?.cancel().catch(() => {});
    throw new SourceError(`${address}: ${message}`);
  }

  /**
   * The bytes from `offset`: `length` bytes, or fewer if the size is not known yet.
   * @param {number} offset
   * @param {number} length
   * @returns {Promise<Uint8Array>}
   */
  async function fetchRange(offset, length) {
    const response = await request("GET", `bytes=${offset}-${offset + length - 1}`);
    if (response.status === 200) {
      return refuse(response, "the server does not serve ranges; fetch the whole file and open its bytes");
    }
    if (response.status === 416) {
      return refuse(response, size === undefined ? "the file is empty" : "the file became shorter while it was read");
    }
    if (response.status !== 206)
      return refuse(response, `the server answers ${response.status} ${response.statusText}`);
    const encoding = response.headers.get("content-encoding");
    if (encoding !== null && encoding !== "identity") {
      return refuse(response, `the server sends ranges of the file encoded as ${encoding}, not of the file`);
    }

    // A server of another origin must allow pages to see Content-Range and ETag.
    const contentRange = response.headers.get("content-range");
    let last = offset + length - 1;
    if (contentRange !== null) {
      const match = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(contentRange);
      if (match === null) return refuse(response, `the server's answer has no size: Content-Range: ${contentRange}`);
      const total = Number(match[3]);
      if (total > Number.MAX_SAFE_INTEGER) return refuse(response, `a file of ${match[3]} bytes is too large`);
      if (size !== undefined && total !== size) {
        return refuse(response, `the file has changed: it had ${size} bytes and has ${total} now; open it again`);
      }
      last = Math.min(last, total - 1);
      if (Number(match[1]) !== offset || Number(match[2]) !== last) {
        return refuse(response, `the server answers bytes ${match[1]} to ${match[2]}, not ${offset} to ${last}`);
      }
      size = total;
    }
    if (identity !== null && identify(response.headers) !== identity) {
      return refuse(
        response,
        `the file has changed: it was ${identity} and is ${identify(response.headers)} now; open it again`,
      );
    }
    identity = identify(response.headers);
    if (size === undefined) {
      const head = await request("HEAD");
      const total = head.headers.get("content-length");
      if (!head.ok || total === null || !Number.isSafeInteger(Number(total))) {
        return refuse(
          response,
          "the server does not tell the size; let it expose Content-Range to pages of other origins",
        );
      }
      size = Number(total);
      last = Math.min(last, size - 1);
    }
    return receive(response, last + 1 - offset);
  }

  /**
   * The body of the response. It must have this length, or there is an error. No more than this length is in memory.
   * @param {Response} response
   * @param {number} length
   */
  async function receive(response, length) {
    const bytes = allocate(length);
    let done = 0;
    const reader = response.body?.getReader();
    for (;;) {
      let chunk;
      try {
        chunk = await reader?.read();
      } catch (cause) {
        if (options.signal?.aborted) throw cause;
        throw new SourceError(`${address}: the answer ended after ${done} of ${length} bytes`, { cause });
      }
      if (chunk === undefined || chunk.done) break;
      if (chunk.value.length > length - done) {
        await reader?.cancel().catch(() => {});
        throw new SourceError(`${address}: the answer has more than the ${length} requested bytes`);
      }
      bytes.set(chunk.value, done);
      done += chunk.value.length;
    }
    if (done !== length) throw new SourceError(`${address}: the answer has ${done} of ${length} bytes`);
    return bytes;
  }

  const head = await fetchRange(0, HEAD_BYTES);
  const fileSize = /** @type {number} */ (/** @type {unknown} */ (size));
  const tailOffset = Math.max(head.length, fileSize - TAIL_BYTES);
  const tail = tailOffset < fileSize ? await fetchRange(tailOffset, fileSize - tailOffset) : new Uint8Array();

  /** @type {ByteSource["read"]} */
  async function read(offset, length) {
    const end = offset + length;
    if (end <= head.length) return head.slice(offset, end);
    if (offset >= tailOffset) return tail.slice(offset - tailOffset, end - tailOffset);
    const start = Math.max(offset, offset < head.length ? head.length : 0);
    const stop = Math.min(end, tailOffset);
    const bytes = start < stop ? await fetchRange(start, stop - start) : new Uint8Array();
    if (start === offset && stop === end) return bytes;
    const joined = allocate(length);
    if (start > offset) joined.set(head.subarray(offset), 0);
    joined.set(bytes, start - offset);
    if (end > stop) joined.set(tail.subarray(0, end - tailOffset), stop - offset);
    return joined;
  }
  return { size: fileSize, remote: true, rangeBytes: REQUEST_BYTES, read, close: async () => {} };
}

/**
 * @param {Source} source
 * @param {OpenOptions} options
 * @returns {Promise<ByteSource>}
 */
async function openSource(source, options) {
  if (source instanceof Uint8Array) return bytesSource(source);
  if (source instanceof ArrayBuffer) return bytesSource(new Uint8Array(source));
  if (source instanceof Blob) return blobSource(source);
  const inNode = typeof process !== "undefined" && typeof process.versions?.node === "string";
  if (typeof source === "string" || source instanceof URL) {
    const protocol = source instanceof URL ? source.protocol : /^https?:\/\//i.test(source) ? "http:" : "";
    if (protocol === "http:" || protocol === "https:") return httpSource(String(source), options);
    if (inNode && (protocol === "" || protocol === "file:")) {
      // Bundlers for browsers do not change an import if they cannot see its name.
      const promises = "node:fs/promises";
      const handle = await (await import(/* webpackIgnore: true */ /* @vite-ignore */ promises)).open(source, "r");
      try {
        return await fileSource(handle, true);
      } catch (error) {
        await handle.close();
        throw error;
      }
    }
    if (!inNode && protocol === "") return httpSource(String(source), options);
    throw new TypeError(`an archive cannot be opened from an address that begins with ${protocol}`);
  }
  if (typeof source?.read === "function" && typeof source.stat === "function") return fileSource(source, false);
  throw new TypeError("an archive is opened from bytes, a Blob or File, a path, a file handle or an HTTP address");
}

const LOCAL_HEADER = 0x04034b50;
const DIRECTORY_ENTRY = 0x02014b50;
const ZIP64_END = 0x06064b50;
const ZIP64_LOCATOR = 0x07064b50;
const END = 0x06054b50;
const LOCAL_HEADER_BYTES = 30;
const DIRECTORY_ENTRY_BYTES = 46;
const ZIP64_END_BYTES = 56;
const ZIP64_LOCATOR_BYTES = 20;
const END_BYTES = 22;
const PADDING_ID = 0x5a4f;
const ZIP64_ID = 0x0001;
const FULL_16 = 0xffff;
const FULL_32 = 0xffffffff;
const NAME_CHARACTERS = 255;
const EXTRA_FIELD_BYTES = 0xffff;

/** Decodes ASCII. Bytes that are not ASCII become characters that are not ASCII. */
const ASCII = new TextDecoder("latin1");
const UTF_8 = new TextDecoder();

/** @param {Uint8Array} bytes */
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/**
 * A name in the form in which errors show it.
 * @param {string} name
 */
const quote = (name) => JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}...` : name);

/**
 * Returns a function that throws if a condition for this entry or tensor is false.
 * @param {string} kind
 * @param {string} name
 */
function demandOf(kind, name) {
  /** @type {Demand} */
  return (requirement, message, holds) => {
    if (!holds) throw new ArchiveError(requirement, `${kind} ${quote(name)}: ${message}`);
  };
}

/** @typedef {(requirement: string, message: string, holds: boolean) => void} Demand */

/**
 * A number of 64 bits, as a Number. A place or size from 2^53 on is outside of any file.
 * @param {DataView} view
 * @param {number} at
 * @param {string} requirement the requirement that such a number breaks
 */
function wide(view, at, requirement) {
  const value = view.getBigUint64(at, true);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new ArchiveError(
      requirement,
      `a size, place or number in the archive is ${value}, which is outside of any file`,
    );
  }
  return Number(value);
}

/**
 * An entry and where its structures are.
 * @typedef {object} PlacedEntry
 * @property {Entry} entry
 * @property {number} headerOffset of the local header
 * @property {Uint8Array} fields the fields that the local header repeats, from version needed to the length of the name
 * @property {boolean} zip64 whether the fields of the sizes are full
 * @property {boolean} checked whether the local header was checked
 */

/**
 * Reads from the last bytes of an archive where its directory is.
 * @param {Uint8Array} tail the last 98 bytes, or all bytes if the archive has fewer
 * @param {number} size of the archive
 * @returns {{ count: number, offset: number, size: number }}
 */
function readEnd(tail, size) {
  const view = viewOf(tail);
  const at = tail.length - END_BYTES;
  if (at < 0 || view.getUint32(at, true) !== END) {
    throw new ArchiveError(
      "Z-2.1",
      "the last 22 bytes are no end record of a zip archive: this is no .onnxz, or not all of it",
    );
  }
  if (view.getUint16(at + 20, true) !== 0) throw new ArchiveError("Z-2.1", "the end record has a comment");
  if (view.getUint16(at + 4, true) !== 0 || view.getUint16(at + 6, true) !== 0) {
    throw new ArchiveError("Z-5.7", "the archive is part of a multi-disk archive");
  }
  const fields = {
    countOnDisk: view.getUint16(at + 8, true),
    count: view.getUint16(at + 10, true),
    size: view.getUint32(at + 12, true),
    offset: view.getUint32(at + 16, true),
  };
  const full = { countOnDisk: FULL_16, count: FULL_16, size: FULL_32, offset: FULL_32 };
  const keys = /** @type {(keyof typeof fields)[]} */ (Object.keys(fields));
  const values = { ...fields };
  let directoryEnd = size - END_BYTES;
  if (keys.some((key) => fields[key] === full[key])) {
    const locator = at - ZIP64_LOCATOR_BYTES;
    const end = locator - ZIP64_END_BYTES;
    if (end < 0) throw new ArchiveError("Z-5.8", "the end record needs zip64, and there is no room for it before");
    if (view.getUint32(locator, true) !== ZIP64_LOCATOR)
      throw new ArchiveError("Z-5.8", "the zip64 locator is missing");
    if (view.getUint32(end, true) !== ZIP64_END) throw new ArchiveError("Z-5.9", "the zip64 end record is missing");
    directoryEnd -= ZIP64_LOCATOR_BYTES + ZIP64_END_BYTES;
    if (view.getUint32(locator + 4, true) !== 0 || view.getUint32(locator + 16, true) !== 1) {
      throw new ArchiveError("Z-5.11", "the zip64 locator names several disks");
    }
    if (wide(view, locator + 8, "Z-5.11") !== directoryEnd) {
      throw new ArchiveError("Z-5.11", "the zip64 end record is not where its locator says");
    }
    if (wide(view, end + 4, "Z-5.10") !== ZIP64_END_BYTES - 12) {
      throw new ArchiveError("Z-5.10", "the zip64 end record must have the size 44");
    }
    if (view.getUint32(end + 16, true) !== 0 || view.getUint32(end + 20, true) !== 0) {
      throw new ArchiveError("Z-5.10", "the zip64 end record names several disks");
    }
    values.countOnDisk = wide(view, end + 24, "Z-5.1");
    values.count = wide(view, end + 32, "Z-5.1");
    values.size = wide(view, end + 40, "Z-2.4");
    values.offset = wide(view, end + 48, "Z-2.3");
    if (keys.every((key) => values[key] < full[key])) throw new ArchiveError("Z-5.8", "zip64 is not needed");
    for (const key of keys) {
      if (fields[key] !== Math.min(values[key], full[key])) {
        throw new ArchiveError("Z-5.9", "the end record and the zip64 end record disagree");
      }
    }
  }
  if (values.countOnDisk !== values.count) throw new ArchiveError("Z-5.7", "some entries are on another disk");
  if (values.offset + values.size !== directoryEnd) {
    throw new ArchiveError("Z-2.4", "the directory does not end where the end records begin");
  }
  const entryBytes = DIRECTORY_ENTRY_BYTES + NAME_CHARACTERS + 28;
  if (values.size < values.count * DIRECTORY_ENTRY_BYTES || values.size > values.count * entryBytes) {
    throw new ArchiveError("Z-5.1", `a directory of ${values.size} bytes cannot have ${values.count} entries`);
  }
  return { count: values.count, offset: values.offset, size: values.size };
}

/**
 * The entries that a directory lists.
 * @param {Uint8Array} directory
 * @param {number} count
 * @param {number} directoryOffset
 * @returns {PlacedEntry[]}
 */
function readDirectory(directory, count, directoryOffset) {
  const view = viewOf(directory);
  /** @type {PlacedEntry[]} */
  const entries = [];
  /** @type {Map<string, string>} */
  const names = new Map();
  let at = 0;
  for (let index = 0; index < count; index++) {
    if (directory.length - at < DIRECTORY_ENTRY_BYTES || view.getUint32(at, true) !== DIRECTORY_ENTRY) {
      throw new ArchiveError("Z-5.1", `the directory has no entry ${index} of ${count}`);
    }
    const nameBytes = view.getUint16(at + 28, true);
    const extraBytes = view.getUint16(at + 30, true);
    const nameAt = at + DIRECTORY_ENTRY_BYTES;
    const end = nameAt + nameBytes + extraBytes;
    if (end > directory.length) throw new ArchiveError("Z-5.1", `entry ${index} reaches beyond the directory`);
    const name = ASCII.decode(directory.subarray(nameAt, nameAt + nameBytes));
    checkName(name);
    const key = lowerCase(name);
    const other = names.get(key);
    if (other !== undefined) throw new ArchiveError("Z-4.6", `the names ${other} and ${name} differ at most in case`);
    names.set(key, name);

    const demand = demandOf("entry", name);
    demand("Z-3.5", "it needs a later version of zip than 4.5", view.getUint16(at + 6, true) <= 45);
    demand("Z-3.3", "it has flags: it is encrypted, or has sizes behind the data", view.getUint16(at + 8, true) === 0);
    demand("Z-3.4", "it is compressed", view.getUint16(at + 10, true) === 0);
    demand("Z-5.2", "it has a comment", view.getUint16(at + 32, true) === 0);
    demand("Z-5.3", "it is on another disk", view.getUint16(at + 34, true) === 0);
    const attributes = view.getUint32(at + 38, true);
    const fileType = attributes >>> 28;
    demand("Z-5.4", "it is marked as a directory or a volume label", (attributes & 0x18) === 0);
    demand("Z-5.4", "it is marked as something else than a file", fileType === 0 || fileType === 8);

    const extra = nameAt + nameBytes;
    let next = extra + 4;
    if (extraBytes > 0) {
      demand(
        "Z-5.5",
        "its extra field is no zip64 record",
        extraBytes >= 4 && view.getUint16(extra, true) === ZIP64_ID,
      );
      demand(
        "Z-5.5",
        "its zip64 record does not fill the extra field",
        view.getUint16(extra + 2, true) === extraBytes - 4,
      );
    }
    /**
     * @param {number} field
     * @param {string} requirement
     */
    const inFull = (field, requirement) => {
      const value = view.getUint32(field, true);
      if (value !== FULL_32) return value;
      demand("Z-5.6", "a size or offset needs zip64, and is not there", next + 8 <= end);
      const fullValue = wide(view, next, requirement);
      demand("Z-5.6", "a size or offset is in zip64 and does not need it", fullValue >= FULL_32);
      next += 8;
      return fullValue;
    };
    const size = inFull(at + 24, "Z-2.5");
    const compressed = inFull(at + 20, "Z-2.5");
    const headerOffset = inFull(at + 42, "Z-2.2");
    demand(
      "Z-5.6",
      "its zip64 record has values that no field needs",
      extraBytes === 0 || (next > extra + 4 && next === end),
    );
    demand(
      "Z-3.6",
      "its compressed size is not its size",
      compressed === size && view.getUint32(at + 20, true) === view.getUint32(at + 24, true),
    );
    entries.push({
      entry: { name, offset: -1, size, crc32: view.getUint32(at + 16, true) },
      headerOffset,
      fields: directory.subarray(at + 6, at + 30),
      zip64: view.getUint32(at + 24, true) === FULL_32,
      checked: false,
    });
    at = end;
  }
  if (at !== directory.length) throw new ArchiveError("Z-5.1", "the directory has bytes after its last entry");
  checkNames(
    entries.map(({ entry }) => entry.name),
    names,
  );

  // Each entry ends where the next one begins. So the place of each payload is known without its local header.
  if (entries[0]?.headerOffset !== 0) throw new ArchiveError("Z-2.2", "the first entry does not begin at 0");
  for (const [index, { entry, headerOffset }] of entries.entries()) {
    const end = entries[index + 1]?.headerOffset ?? directoryOffset;
    const header = end - entry.size - headerOffset;
    const smallest = LOCAL_HEADER_BYTES + entry.name.length;
    if (header < smallest || header > smallest + EXTRA_FIELD_BYTES) {
      const requirement = index < count - 1 ? "Z-2.2" : "Z-2.3";
      throw new ArchiveError(requirement, `entry ${entry.name} does not end at ${end}, where what follows it begins`);
    }
    entry.offset = end - entry.size;
  }
  return entries;
}

/** @param {string} name */
const lowerCase = (name) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** What entries are. The entries of an archive are in this order. */
const PARTS = /** @type {const} */ ({ tensor: 0, file: 1, hashes: 2, graph: 3, defaultGraph: 4 });

/**
 * What an entry with this name is, if the name is allowed.
 * @param {string} name
 */
function partOf(name) {
  if (name === GRAPH_NAME) return PARTS.defaultGraph;
  if (name.startsWith(GRAPH_PREFIX)) return PARTS.graph;
  if (name === HASHES_NAME) return PARTS.hashes;
  return name.startsWith(FILES_PREFIX) ? PARTS.file : PARTS.tensor;
}

/**
 * The name of the model whose graph is the entry with this name; null for the default one.
 * @param {string} name
 */
const modelOf = (name) => (name === GRAPH_NAME ? null : name.slice(GRAPH_PREFIX.length));

/** @param {string} name */
function checkName(name) {
  if (name.length > NAME_CHARACTERS) throw new ArchiveError("Z-4.3", "a name has more than 255 characters");
  const isWord = /^[A-Za-z0-9_]*$/.test(name);
  if (name.startsWith("__") && isWord) {
    if (name === GRAPH_NAME || name === HASHES_NAME) return;
    if (name.startsWith(GRAPH_PREFIX) && name !== GRAPH_PREFIX) return;
    throw new ArchiveError("Z-4.4", `the name ${name} is reserved; the archive may have a later version of the format`);
  }
  let components = [name];
  if (name.startsWith(FILES_PREFIX)) {
    components = name.slice(FILES_PREFIX.length).split("/");
    const areRight = components.every((each) => /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(each) && !each.endsWith("."));
    if (!areRight) throw new ArchiveError("Z-4.7", `the name ${quote(name)} is not allowed for a file`);
  } else if (!isWord || !/^[A-Za-z_]/.test(name)) {
    throw new ArchiveError("Z-4.2", `the name ${quote(name)} has other characters than letters, digits and _`);
  }
  if (components.some((each) => /^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)/i.test(each))) {
    throw new ArchiveError("Z-4.5", `the name ${name} is reserved by Windows`);
  }
}

/**
 * Checks that the names of all entries fit together.
 * @param {string[]} names in the order of the archive
 * @param {ReadonlyMap<string, string>} byKey the names by their form in lower case
 */
function checkNames(names, byKey) {
  for (const name of names) {
    if (partOf(name) !== PARTS.file) continue;
    const key = lowerCase(name);
    for (let at = key.indexOf("/"); at >= 0; at = key.indexOf("/", at + 1)) {
      const other = byKey.get(key.slice(0, at));
      if (other !== undefined) throw new ArchiveError("Z-4.8", `the name ${other} is that of a folder of ${name}`);
    }
  }
  const last = names.at(-1);
  if (last === undefined || partOf(last) < PARTS.graph)
    throw new ArchiveError("Z-4.1", `the last entry is not ${GRAPH_NAME} or ${GRAPH_PREFIX}NAME`);
  for (const [index, name] of names.entries()) {
    const before = names[index - 1];
    if (before !== undefined && partOf(before) > partOf(name))
      throw new ArchiveError("Z-4.9", `entry ${name} comes after ${before}, but must come before it`);
  }
}

/**
 * Checks a local header, its name and its extra field.
 * @param {PlacedEntry} placed
 * @param {Uint8Array} header all bytes between the previous entry and the payload
 */
function checkLocalHeader(placed, header) {
  const view = viewOf(header);
  const { name } = placed.entry;
  const demand = demandOf("entry", name);
  demand("Z-3.1", "it does not begin with a local header", view.getUint32(0, true) === LOCAL_HEADER);
  const sameFields = placed.fields.every((byte, index) => byte === header[4 + index]);
  demand("Z-3.2", "its local header differs from the directory", sameFields);
  const nameEnd = LOCAL_HEADER_BYTES + name.length;
  const sameName = ASCII.decode(header.subarray(LOCAL_HEADER_BYTES, nameEnd)) === name;
  demand("Z-3.2", "its local header has another name", sameName);
  const end = nameEnd + view.getUint16(28, true);
  demand("Z-2.2", "its payload does not end where what follows it begins", end === header.length);

  let padding = false;
  let zip64 = false;
  for (let at = nameEnd; at < end;) {
    demand("Z-3.7", "its extra field ends inside a record", end - at >= 4);
    const id = view.getUint16(at, true);
    const start = at + 4;
    at = start + view.getUint16(at + 2, true);
    demand("Z-3.7", "its extra field ends inside a record", at <= end);
    if (id === PADDING_ID) {
      demand("Z-3.7", "it has two padding records", !padding);
      demand(
        "Z-3.8",
        "its padding is not all zeros",
        header.subarray(start, at).every((byte) => byte === 0),
      );
      padding = true;
    } else {
      demand("Z-3.7", "its extra field has another record than padding and zip64", id === ZIP64_ID);
      demand("Z-3.7", "it has two zip64 records", !zip64);
      demand("Z-3.9", "its local header has a zip64 record and needs none", placed.zip64);
      demand("Z-3.9", "the zip64 record of its local header has not 16 bytes", at - start === 16);
      const same = [start, start + 8].every((value) => wide(view, value, "Z-3.9") === placed.entry.size);
      demand("Z-3.9", "its local header has another size in zip64 than the directory", same);
      zip64 = true;
    }
  }
  demand("Z-3.9", "its local header lacks a zip64 record", zip64 || !placed.zip64);
  placed.checked = true;
}

const MAX_DEPTH = 100;
const PREFIX_BYTES = 5;
const VARINT = 0;
const FIXED_64 = 1;
const LENGTH = 2;
const GROUP_START = 3;
const GROUP_END = 4;
const FIXED_32 = 5;

/**
 * The messages that can contain tensors. For each message: the field number, the message in it, and whether it is repeated.
 * @type {Record<string, Record<number, [message: string, repeated: boolean]>>}
 */
const MESSAGES = {
  ModelProto: { 7: ["GraphProto", false], 20: ["TrainingInfoProto", true], 25: ["FunctionProto", true] },
  TrainingInfoProto: { 1: ["GraphProto", false], 2: ["GraphProto", false] },
  FunctionProto: { 7: ["NodeProto", true], 11: ["AttributeProto", true] },
  GraphProto: { 1: ["NodeProto", true], 5: ["TensorProto", true], 15: ["SparseTensorProto", true] },
  NodeProto: { 5: ["AttributeProto", true] },
  AttributeProto: {
    5: ["TensorProto", false],
    6: ["GraphProto", false],
    10: ["TensorProto", true],
    11: ["GraphProto", true],
    22: ["SparseTensorProto", false],
    23: ["SparseTensorProto", true],
  },
  SparseTensorProto: { 1: ["TensorProto", false], 2: ["TensorProto", false] },
};

/** The bits of an element, by `TensorProto.DataType`; 0 if ONNX has no raw form for the type. */
const ELEMENT_BITS = [
  0, 32, 8, 8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64, 128, 16, 8, 8, 8, 8, 4, 4, 4, 8, 2, 2, 6, 6,
];

/**
 * A part of the graph's bytes.
 * @typedef {[start: number, end: number]} Span
 */

/** Goes through the bytes of a graph and finds the tensors in it. */
class GraphReader {
  /**
   * @param {Uint8Array} bytes
   * @param {string | null} model
   * @param {ReadonlyMap<string, Entry>} entries of tensors
   */
  constructor(bytes, model, entries) {
    this.bytes = bytes;
    this.model = model;
    this.entries = entries;
    /** @type {Tensor[]} */
    this.tensors = [];
    this.at = 0;
    /** The value of the last varint, in two halves of 32 bits. */
    this.low = 0;
    this.high = 0;
    /** The last field: its number, its wire type, and where its value begins. */
    this.number = 0;
    this.wireType = 0;
    this.start = 0;
  }

  /** @returns {Tensor[]} */
  read() {
    const fields = this.enter("ModelProto", [[0, this.bytes.length]], 0);
    if (!fields.has(7)) throw new ArchiveError("Z-6.5", "the graph's ModelProto has no graph");
    return this.tensors;
  }

  /** @param {number} end */
  varint(end) {
    const { bytes } = this;
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      if (this.at >= end) throw this.malformed("Z-6.1", "a number reaches beyond its message");
      const byte = /** @type {number} */ (bytes[this.at++]);
      if (shift === 63 && byte > 1)
        throw this.malformed("Z-6.2", "a number has more than 64 bits or more than 10 bytes");
      if (shift < 28) low |= (byte & 0x7f) << shift;
      else if (shift === 28) {
        low |= (byte & 0x0f) << 28;
        high = (byte & 0x7f) >> 4;
      } else high |= (byte & 0x7f) << (shift - 32);
      if (byte < 0x80) break;
    }
    this.low = low >>> 0;
    this.high = high >>> 0;
  }

  /**
   * Reads a tag or a length.
   * @param {number} end
   */
  prefix(end) {
    const start = this.at;
    this.varint(end);
    if (this.at - start > PREFIX_BYTES) throw this.malformed("Z-6.2", "a tag or a length has more than 5 bytes");
  }

  /**
   * @param {string} requirement
   * @param {string} message
   */
  malformed(requirement, message) {
    return new ArchiveError(
      requirement,
      `the graph is no ModelProto: ${message}, at ${this.at} of ${this.bytes.length}`,
    );
  }

  /** @param {number} end */
  tag(end) {
    this.prefix(end);
    this.number = this.low >>> 3;
    this.wireType = this.low & 7;
    if (this.high !== 0 || this.number === 0) throw this.malformed("Z-6.1", "a field has an impossible number");
  }

  /**
   * Reads a field. Its value is from `start` to `at`. The value of a varint is also in `low` and `high`.
   * @param {number} end
   */
  field(end) {
    this.tag(end);
    if (this.wireType === GROUP_START) {
      const { number } = this;
      this.group(end, 1);
      this.number = number;
      this.wireType = GROUP_START;
    } else this.value(end);
  }

  /** @param {number} end */
  value(end) {
    this.start = this.at;
    if (this.wireType === VARINT) return this.varint(end);
    if (this.wireType === LENGTH) this.prefix(end);
    else if (this.wireType !== FIXED_64 && this.wireType !== FIXED_32) {
      throw this.malformed("Z-6.1", `a field has wire type ${this.wireType}`);
    }
    const length = this.wireType === LENGTH ? this.high * 2 ** 32 + this.low : this.wireType === FIXED_64 ? 8 : 4;
    if (length > end - this.at) throw this.malformed("Z-6.1", "a field reaches beyond its message");
    this.start = this.at;
    this.at += length;
  }

  /**
   * Skips a group. The first tag of the group was already read.
   * @param {number} end
   * @param {number} depth
   */
  group(end, depth) {
    const { number } = this;
    if (depth > MAX_DEPTH) throw this.malformed("Z-6.3", `groups are nested more than ${MAX_DEPTH} deep`);
    for (;;) {
      if (this.at >= end) throw this.malformed("Z-6.3", "a group does not end inside its message");
      this.tag(end);
      if (this.wireType === GROUP_END) {
        if (this.number !== number) throw this.malformed("Z-6.3", "a group ends with another number");
        return;
      }
      if (this.wireType === GROUP_START) this.group(end, depth + 1);
      else this.value(end);
    }
  }

  /**
   * Reads a message, and the messages in it that can contain tensors.
   * @param {string} message
   * @param {Span[]} spans its parts: if a field is there twice, both are parts of one message
   * @param {number} depth
   * @returns {Set<number>} the fields of the table that the message has
   */
  enter(message, spans, depth) {
    if (depth > MAX_DEPTH) throw this.malformed("Z-6.4", `messages are nested more than ${MAX_DEPTH} deep`);
    const fields = new Set();
    if (message === "TensorProto") {
      this.tensor(spans, depth);
      return fields;
    }
    const table = MESSAGES[message] ?? {};
    /** @type {Map<number, Span[]>} */
    const single = new Map();
    for (const [start, end] of spans) {
      this.at = start;
      while (this.at < end) {
        this.field(end);
        const row = this.wireType === LENGTH ? table[this.number] : undefined;
        if (row === undefined) continue;
        fields.add(this.number);
        /** @type {Span} */
        const span = [this.start, this.at];
        if (row[1]) {
          this.enter(row[0], [span], depth + 1);
          this.at = span[1];
        } else if (single.get(this.number)?.push(span) === undefined) single.set(this.number, [span]);
      }
    }
    for (const [number, parts] of single)
      this.enter(/** @type {[string, boolean]} */ (table[number])[0], parts, depth + 1);
    return fields;
  }

  /**
   * @param {Span[]} spans
   * @param {number} depth
   */
  tensor(spans, depth) {
    /** @type {Span | undefined} */
    let name;
    let dataType = 0;
    let dataLocation = 0;
    let hasData = false;
    let hasSegment = false;
    /** @type {Span[]} */
    const externalData = [];
    /** @type {Span[]} */
    const dims = [];
    for (const [start, end] of spans) {
      this.at = start;
      while (this.at < end) {
        this.field(end);
        const { number, wireType } = this;
        /** @type {Span} */
        const span = [this.start, this.at];
        if (number === 1 && (wireType === LENGTH || wireType === VARINT)) dims.push(span);
        if (wireType === LENGTH) {
          if (number === 8) name = span;
          else if (number === 13) externalData.push(span);
        } else if (wireType === VARINT) {
          if (number === 2) dataType = this.low;
          else if (number === 14) dataLocation = this.low;
        }
        if (number === 3) hasSegment = true;
        if ((number >= 4 && number <= 7) || (number >= 9 && number <= 11)) hasData = true;
      }
    }
    if (dataLocation !== 1) return;

    const label = name === undefined ? "" : UTF_8.decode(this.bytes.subarray(...name));
    const demand = demandOf("tensor", label);
    demand("Z-7.6", "it has data of its own beside external data", !hasData);
    demand("Z-7.7", "it has a segment", !hasSegment);
    const keys = this.externalData(externalData, depth + 1, demand);
    const location = keys.get("location");
    const entry = location === undefined ? undefined : this.entries.get(location);
    demand("Z-7.2", "its external data have no location", location !== undefined);
    if (entry === undefined)
      throw new ArchiveError(
        "Z-7.3",
        `tensor ${quote(label)}: it refers to ${quote(location ?? "")}, which is no entry of a tensor`,
      );
    demand("Z-7.4", "it begins inside an entry", (keys.get("offset") ?? "0") === "0");
    demand(
      "Z-7.5",
      `its length is not ${entry.size}, the size of the entry`,
      (keys.get("length") ?? `${entry.size}`) === `${entry.size}`,
    );

    const allDims = this.dims(dims);
    const bits = ELEMENT_BITS[dataType] ?? 0;
    demand("Z-7.8", `its data type, ${dataType}, has no known size`, bits !== 0);
    demand(
      "Z-7.9",
      "it has a negative dim",
      allDims.every((dim) => dim >= 0n),
    );
    demand(
      "Z-7.10",
      `its type and dims do not make ${entry.size} bytes`,
      elementBytes(allDims, bits) === BigInt(entry.size),
    );
    this.tensors.push({
      name: label,
      model: this.model,
      dims: allDims,
      dataType,
      location: entry.name,
      offset: entry.offset,
      size: entry.size,
    });
  }

  /**
   * All dims. Each one is a varint, or they are packed.
   * @param {Span[]} spans
   */
  dims(spans) {
    const dims = [];
    for (const [start, end] of spans) {
      this.at = start;
      while (this.at < end) {
        this.varint(end);
        dims.push(BigInt.asIntN(64, (BigInt(this.high) << 32n) | BigInt(this.low)));
      }
    }
    return dims;
  }

  /**
   * @param {Span[]} spans
   * @param {number} depth
   * @param {Demand} demand
   */
  externalData(spans, depth, demand) {
    if (spans.length > 0 && depth > MAX_DEPTH)
      throw this.malformed("Z-6.4", `messages are nested more than ${MAX_DEPTH} deep`);
    /** @type {Map<string, string>} */
    const keys = new Map();
    for (const [start, end] of spans) {
      const texts = ["", "", ""];
      this.at = start;
      while (this.at < end) {
        this.field(end);
        if (this.wireType === LENGTH && (this.number === 1 || this.number === 2)) {
          texts[this.number] = ASCII.decode(this.bytes.subarray(this.start, this.at));
        }
      }
      const [, key = "", value = ""] = texts;
      const known = key === "location" || key === "offset" || key === "length";
      if (!known) demand("Z-7.2", `its external data have the key ${quote(key)}`, false);
      demand("Z-7.2", `its external data have the key ${key} twice`, !keys.has(key));
      keys.set(key, value);
    }
    return keys;
  }
}

/**
 * The size in bytes of all elements; if it is beyond 2^64, the result is some other large number.
 * @param {bigint[]} dims
 * @param {number} bits
 */
function elementBytes(dims, bits) {
  if (dims.includes(0n)) return 0n;
  let elements = 1n;
  for (const dim of dims) {
    elements *= dim;
    if (elements >= 2n ** 68n) break;
  }
  return (elements * BigInt(bits) + 7n) / 8n;
}

/** Tables for the CRC-32 of eight bytes at a time, one after the other. They are made at the first use. */
const crcTables = () => {
  const tables = new Uint32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    tables[byte] = value;
  }
  for (let index = 256; index < tables.length; index++) {
    const before = tables[index - 256] ?? 0;
    tables[index] = (before >>> 8) ^ (tables[before & 0xff] ?? 0);
  }
  return tables;
};

/**
 * The CRC-32 of bytes. `crc` is the CRC-32 of the bytes before them.
 * @param {Uint32Array} tables
 * @param {Uint8Array} bytes
 * @param {number} crc
 */
function crc32(tables, bytes, crc) {
  // Every index is in range, but the type checker cannot see that.
  const [t, b] = /** @type {[any, any]} */ ([tables, bytes]);
  let value = ~crc;
  let at = 0;
  for (; at + 8 <= bytes.length; at += 8) {
    value ^= b[at] | (b[at + 1] << 8) | (b[at + 2] << 16) | (b[at + 3] << 24);
    value =
      t[1792 + (value & 0xff)] ^
      t[1536 + ((value >>> 8) & 0xff)] ^
      t[1280 + ((value >>> 16) & 0xff)] ^
      t[1024 + (value >>> 24)] ^
      t[768 + b[at + 4]] ^
      t[512 + b[at + 5]] ^
      t[256 + b[at + 6]] ^
      t[b[at + 7]];
  }
  for (; at < bytes.length; at++) value = (value >>> 8) ^ t[(value ^ b[at]) & 0xff];
  return ~value >>> 0;
}

/**
 * Opens an archive and checks it.
 *
 * At an HTTP address, it reads the directory and the graph, in two to four requests. It checks the local header of a weight
 * when the program reads that weight; `Archive.check` checks all of them. For any other source, it checks everything except
 * the checksums.
 * @param {Source} source
 * @param {OpenOptions} [options]
 * @returns {Promise<Archive>}
 * @throws {ArchiveError} the archive does not meet the specification
 * @throws {SourceError} the bytes cannot be read; errors of the file system are those of Node
 */
export async function open(source, options = {}) {
  const bytes = await openSource(source, options);
  try {
    const tailBytes = Math.min(bytes.size, END_BYTES + ZIP64_LOCATOR_BYTES + ZIP64_END_BYTES);
    const { count, offset, size } = readEnd(await bytes.read(bytes.size - tailBytes, tailBytes), bytes.size);
    const placed = readDirectory(await bytes.read(offset, size), count, offset);
    if (!bytes.remote) await checkLocalHeaders(bytes, placed);
    const first = placed.findIndex(({ entry }) => partOf(entry.name) >= PARTS.hashes);
    const tail = await readPayloads(bytes, placed.slice(first));
    const graphs = new Map([...tail].filter(([{ entry }]) => partOf(entry.name) >= PARTS.graph));
    for (const [hashes, text] of tail) if (!graphs.has(hashes)) checkHashes(text, placed);
    const entries = new Map(
      placed.filter(({ entry }) => partOf(entry.name) === PARTS.tensor).map(({ entry }) => [entry.name, entry]),
    );
    const tensors = [...graphs].flatMap(([{ entry }, graph]) =>
      new GraphReader(graph, modelOf(entry.name), entries).read(),
    );
    const referred = new Set(tensors.map((tensor) => tensor.location));
    for (const name of entries.keys()) {
      if (!referred.has(name)) throw new ArchiveError("Z-7.11", `no tensor refers to entry ${name}`);
    }
    return new Archive(bytes, placed, tensors, bytes.remote ? graphs : new Map());
  } catch (error) {
    await bytes.close();
    throw error;
  }
}

/**
 * Checks the form of the hashes.
 * @param {Uint8Array} bytes
 * @param {PlacedEntry[]} placed all entries
 */
function checkHashes(bytes, placed) {
  let at = 0;
  for (const { entry } of placed) {
    if (entry.name === HASHES_NAME) continue;
    const end = at + 64 + 2 + entry.name.length + 1;
    const line = ASCII.decode(bytes.subarray(at, end));
    if (!/^[0-9a-f]{64}$/.test(line.slice(0, 64)) || line.slice(64) !== `  ${entry.name}\n`) {
      throw new ArchiveError("Z-4.10", `${HASHES_NAME} has no right line for entry ${entry.name}`);
    }
    at = end;
  }
  if (at !== bytes.length) throw new ArchiveError("Z-4.10", `${HASHES_NAME} has more lines than other entries`);
}

/** An archive that `open` opened. */
export class Archive {
  /** @type {ByteSource} */
  #source;
  /** @type {PlacedEntry[]} */
  #placed;
  /** The graphs of a remote archive, kept so that they are not fetched twice.
   * @type {Map<PlacedEntry, Uint8Array>} */
  #graphs;

  /**
   * @param {ByteSource} source
   * @param {PlacedEntry[]} placed
   * @param {Tensor[]} tensors
   * @param {Map<PlacedEntry, Uint8Array>} graphs
   * @internal
   */
  constructor(source, placed, tensors, graphs) {
    this.#source = source;
    this.#placed = placed;
    this.#graphs = graphs;
    /** The size of the archive. */
    this.size = source.size;
    /**
     * All entries, in the order of the archive: tensors, files, hashes, graphs.
     * @type {readonly Entry[]}
     */
    this.entries = placed.map(({ entry }) => entry);
    /**
     * The names of the models. `null` is the default one, whose graph is the last entry.
     * @type {readonly (string | null)[]}
     */
    this.models = this.entries.filter(({ name }) => partOf(name) >= PARTS.graph).map(({ name }) => modelOf(name));
    /**
     * The files that go with the models. The name of each begins with `files/`.
     * @type {readonly Entry[]}
     */
    this.files = this.entries.filter(({ name }) => partOf(name) === PARTS.file);
    /**
     * The tensors whose bytes are entries, anywhere in a graph.
     * @type {readonly Tensor[]}
     */
    this.tensors = tensors;
  }

  /**
   * The graph of a model: a serialised ModelProto, whose external data are entries.
   *
   * For an archive in memory, the result is a view. Otherwise, the result is a copy.
   * @param {string | null} [model] the name of the model; without it, the default one, or the only one
   * @returns {Promise<Uint8Array>}
   * @throws {RangeError} there is no such model
   */
  async graph(model) {
    const placed = this.#graphOf(model);
    return this.#graphs.get(placed)?.slice() ?? readPayload(this.#source, placed);
  }

  /**
   * @param {string | null | undefined} model
   * @returns {PlacedEntry}
   */
  #graphOf(model) {
    const only = this.models.length === 1 ? this.models[0] : null;
    const name = model ?? only ?? null;
    const entryName = name === null ? GRAPH_NAME : `${GRAPH_PREFIX}${name}`;
    const placed = this.#placed.find(({ entry }) => entry.name === entryName);
    if (placed === undefined) {
      const known = this.models.map((each) => JSON.stringify(each)).join(", ");
      throw new RangeError(
        `the archive has no ${name === null ? "default model" : `model ${quote(name)}`}, but ${known}`,
      );
    }
    return placed;
  }

  /**
   * The bytes of an entry. For an archive in memory, the result is a view. Otherwise, the result is a copy.
   * @param {string} name
   * @returns {Promise<Uint8Array>}
   * @throws {RangeError} there is no such entry
   */
  async read(name) {
    const placed = this.#placed.find(({ entry }) => entry.name === name);
    if (placed === undefined) throw new RangeError(`the archive has no entry ${JSON.stringify(name)}`);
    return this.#graphs.get(placed)?.slice() ?? readPayload(this.#source, placed);
  }

  /**
   * A whole model, in the form that `InferenceSession.create(model, { externalData })` of onnxruntime accepts.
   *
   * From an HTTP address, entries that are next to each other are fetched together, and four ranges at once.
   * @param {string | null} [model] the name of the model; without it, the default one, or the only one
   * @returns {Promise<Model>}
   * @throws {RangeError} there is no such model
   */
  async model(model) {
    const name = modelOf(this.#graphOf(model).entry.name);
    const used = new Set(this.tensors.filter((tensor) => tensor.model === name).map(({ location }) => location));
    const weights = this.#placed.filter(({ entry }) => used.has(entry.name));
    const data = await readPayloads(this.#source, weights);
    return {
      model: await this.graph(model),
      externalData: weights.map((placed) => ({
        path: placed.entry.name,
        data: /** @type {Uint8Array} */ (data.get(placed)),
      })),
    };
  }

  /**
   * Checks the local headers that `open` did not check: for an HTTP address, those of weights that were not read yet.
   *
   * It reads all these headers. One request reads all headers that are close together.
   * @returns {Promise<void>}
   */
  async check() {
    await checkLocalHeaders(this.#source, this.#placed);
  }

  /**
   * Reads all entries and compares them with their checksums.
   * @returns {Promise<void>}
   * @throws {ArchiveError} an entry is damaged
   */
  async verify() {
    await this.check();
    const tables = crcTables();
    for (const { entry } of this.#placed) {
      let crc = 0;
      for (let done = 0; done < entry.size;) {
        const step = Math.min(entry.size - done, REQUEST_BYTES);
        crc = crc32(tables, await this.#source.read(entry.offset + done, step), crc);
        done += step;
      }
      if (crc !== entry.crc32) throw new ArchiveError("Z-9.1", `entry ${entry.name} is damaged: its CRC-32 differs`);
    }
  }

  /**
   * Closes the file that `open` opened. If the program gave a file handle to `open`, this handle stays open.
   * @returns {Promise<void>}
   */
  async close() {
    this.#graphs = new Map();
    await this.#source.close();
  }
}

/** @param {PlacedEntry} placed */
const endOf = ({ entry }) => entry.offset + entry.size;

/** @param {PlacedEntry} placed */
const payloadOf = ({ entry }) => entry.offset;

/**
 * Reads the payload of an entry. It also checks the local header if this was not done yet.
 * @param {ByteSource} source
 * @param {PlacedEntry} placed
 * @returns {Promise<Uint8Array>}
 */
async function readPayload(source, placed) {
  const { offset, size } = placed.entry;
  if (placed.checked) return source.read(offset, size);
  const bytes = await source.read(placed.headerOffset, offset + size - placed.headerOffset);
  return payloadIn(bytes, placed.headerOffset, placed);
}

/**
 * Reads the payloads of entries, and several neighbours at once.
 * @param {ByteSource} source
 * @param {PlacedEntry[]} wanted in the order of the archive
 */
async function readPayloads(source, wanted) {
  const { rangeBytes } = source;
  /** @type {Map<PlacedEntry, Uint8Array>} */
  const data = new Map();
  await inParallel(
    together(wanted, endOf, { bytes: rangeBytes, between: Math.min(rangeBytes, READ_BYTES) }),
    async (group) => {
      const [first, last] = /** @type {[PlacedEntry, PlacedEntry]} */ ([group[0], group.at(-1)]);
      if (first === last) return void data.set(first, await readPayload(source, first));
      const bytes = await source.read(first.headerOffset, endOf(last) - first.headerOffset);
      for (const placed of group) data.set(placed, payloadIn(bytes, first.headerOffset, placed).slice());
    },
  );
  return new Map(wanted.map((placed) => [placed, /** @type {Uint8Array} */ (data.get(placed))]));
}

/**
 * Does the same for an entry in a range that was already read.
 * @param {Uint8Array} bytes
 * @param {number} bytesOffset where in the archive they begin
 * @param {PlacedEntry} placed
 */
function payloadIn(bytes, bytesOffset, placed) {
  const start = placed.entry.offset - bytesOffset;
  if (!placed.checked) checkLocalHeader(placed, bytes.subarray(placed.headerOffset - bytesOffset, start));
  return bytes.subarray(start, start + placed.entry.size);
}

/**
 * Checks the local headers that were not checked yet.
 * @param {ByteSource} source
 * @param {PlacedEntry[]} placed
 */
async function checkLocalHeaders(source, placed) {
  const unchecked = placed.filter(({ checked }) => !checked);
  const apart = { bytes: HEADERS_BYTES, between: HEADERS_APART_BYTES };
  await inParallel(together(unchecked, payloadOf, apart), async (group) => {
    const [first, last] = /** @type {[PlacedEntry, PlacedEntry]} */ ([group[0], group.at(-1)]);
    const bytes = await source.read(first.headerOffset, last.entry.offset - first.headerOffset);
    for (const each of group) {
      const start = each.headerOffset - first.headerOffset;
      checkLocalHeader(each, bytes.subarray(start, each.entry.offset - first.headerOffset));
    }
  });
}

/**
 * Puts entries into groups that are read at once. `atMost` limits the bytes of a group and the gaps between its entries.
 * @param {PlacedEntry[]} placed in the order of the archive
 * @param {(placed: PlacedEntry) => number} wantedEnd where the needed part of an entry ends; it begins at the header
 * @param {{ bytes: number, between: number }} atMost
 */
function together(placed, wantedEnd, atMost) {
  /** @type {PlacedEntry[][]} */
  const groups = [];
  for (const next of placed) {
    const group = groups.at(-1) ?? [];
    const [first, last] = [group[0], group.at(-1)];
    const fits =
      first !== undefined &&
      last !== undefined &&
      next.headerOffset - wantedEnd(last) <= atMost.between &&
      wantedEnd(next) - first.headerOffset <= atMost.bytes;
    if (fits) group.push(next);
    else groups.push([next]);
  }
  return groups;
}

/**
 * Calls a function for each value, several at a time. It stops at the first error.
 * @template T
 * @param {readonly T[]} values
 * @param {(value: T) => Promise<void>} call
 */
async function inParallel(values, call) {
  let next = 0;
  const work = async () => {
    while (next < values.length) {
      const value = /** @type {T} */ (values[next++]);
      try {
        await call(value);
      } catch (error) {
        next = values.length;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, work));
}
