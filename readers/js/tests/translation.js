/** Translates with the models of one archive, which `tests/onnxzip/translation.py` makes; for Node and for browsers. */

const STEPS = 12;
const PAST = ["0.k", "0.v", "1.k", "1.v"];

/**
 * The likeliest next word, again and again, with the keys and values of the words before.
 * @param {any} ort onnxruntime-node or onnxruntime-web
 * @param {import("../onnxz.js").Archive} archive
 * @param {string[]} sentences
 * @returns {Promise<{ [sentence: string]: string }>}
 */
export async function translations(ort, archive, sentences) {
  const tokenizer = JSON.parse(new TextDecoder().decode(await archive.read("files/tokenizer.json")));
  const vocabulary = tokenizer.model.vocab;
  const words = Object.keys(vocabulary);
  const sessions = /** @type {any} */ ({});
  for (const name of ["encoder", "decoder", "decoder_with_past"]) {
    const { model, externalData } = await archive.model(name);
    const options = { externalData, logSeverityLevel: 3, intraOpNumThreads: 1 };
    sessions[name] = await ort.InferenceSession.create(model, options);
  }

  /** @param {number[]} ids */
  const asTensor = (ids) => new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);

  /** @param {string} sentence */
  async function translated(sentence) {
    const { hidden } = await sessions.encoder.run({
      ids: asTensor(sentence.split(" ").map((word) => vocabulary[word])),
    });
    const found = [vocabulary["<s>"]];
    let present = /** @type {any} */ (undefined);
    while (found.length <= STEPS) {
      const feeds = /** @type {any} */ ({ ids: asTensor(found.slice(-1)), hidden });
      for (const name of present ? PAST : []) feeds[`past.${name}`] = present[`present.${name}`];
      present = await sessions[present ? "decoder_with_past" : "decoder"].run(feeds);
      const logits = present.logits.data.slice(-words.length);
      found.push(logits.indexOf(Math.max(...logits)));
    }
    return found
      .slice(1)
      .map((index) => words[index])
      .join(" ");
  }

  const all = /** @type {any} */ ({});
  for (const sentence of sentences) all[sentence] = await translated(sentence);
  for (const session of Object.values(sessions)) await session.release();
  return all;
}
