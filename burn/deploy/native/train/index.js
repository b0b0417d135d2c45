// A training compiled by burn: `const trainer = await load()`, then `trainer.step({name: typedArray}).loss`. Works in browsers and in
// Node. MODEL is written by burn-compile; everything else is the same for every training.

const MODEL = "@MODEL@";

// @COMMON@

// ---- the training ---------------------------------------------------------------------------------------------------

const STEP = 0, PREDICT = 1;

/** Loads the training, in its initial state. base: the folder of its files; default: this module's. progress(loaded, total): bytes of
 * the module. */
export async function load(base = import.meta.url, { progress = () => {} } = {}) {
  const code = await read(new URL("model.wasm", new URL(base, globalThis.location?.href)), (loaded) => progress(loaded, MODEL.moduleBytes));
  const module = await WebAssembly.compile(code);
  const { exports } = await WebAssembly.instantiate(module, imports(module, () => exports.memory));
  exports._initialize?.();
  return new Trainer(exports);
}

class Trainer {
  #c;

  constructor(exports) {
    this.#c = exports;
    this.#check(exports.start());
  }

  /** Names, element types and sizes: of a batch and of a step's results, and of the state's tensors. */
  get inputs() { return MODEL.step.inputs; }
  get outputs() { return MODEL.step.outputs; }
  get state() { return MODEL.state; }

  /** How many steps were made, those before a loaded checkpoint among them. */
  get steps() { return this.#c.steps(); }

  /** One training step. A tensor of the batch is a typed array, or {data, dims} if its length does not determine its sizes. A scalar
   * result is a number. */
  step(batch) { return this.#run(STEP, MODEL.step, batch); }

  /** Inference with the current parameters. */
  predict(inputs) {
    if (!MODEL.predict) throw new Error("this training was compiled without a function for inference");
    return this.#run(PREDICT, MODEL.predict, inputs);
  }

  /** Starts the random numbers of the following steps from a seed. */
  seed(seed) {
    const words = BigInt(seed);
    this.#c.seed(Number(words & 0xffffffffn), Number(words >> 32n & 0xffffffffn));
  }

  /** A checkpoint (safetensors) as a Uint8Array, which burn.train reads. */
  save() {
    this.#check(this.#c.save());
    return new Uint8Array(this.#c.memory.buffer, this.#c.saved() >>> 0, this.#c.saved_bytes() >>> 0).slice();
  }

  /** Restores the state of a checkpoint, or takes the model's parameters of a safetensors file. Throws an Error, and then the state is
   * as before. */
  load(checkpoint) {
    const bytes = checkpoint instanceof ArrayBuffer ? new Uint8Array(checkpoint) : checkpoint;
    const at = this.#place(bytes);
    try {
      this.#check(this.#c.load(at, bytes.byteLength));
    } finally {
      this.#c.release(at);
    }
  }

  /** A copy of a tensor of the state: `trainer.read("model.head.weight")`. */
  read(name) {
    const { dtype, dims } = this.#tensor(name);
    const Made = arrayOf(dtype), data = new Made(dims.reduce((a, b) => a * b, 1));
    this.#named(name, data.byteLength, (text, at) => {
      this.#check(this.#c.read_state(text, at, data.byteLength));
      new Uint8Array(data.buffer).set(new Uint8Array(this.#c.memory.buffer, at, data.byteLength));
    });
    return { data, dims };
  }

  /** Replaces a tensor of the state. */
  write(name, data) {
    const { dtype, dims } = this.#tensor(name), Wanted = arrayOf(dtype);
    if (!(data instanceof Wanted) || data.length !== dims.reduce((a, b) => a * b, 1))
      throw new TypeError(`'${name}' takes a ${Wanted.name} of the shape [${dims.join(", ")}]`);
    this.#named(name, data.byteLength, (text, at) => {
      new Uint8Array(this.#c.memory.buffer).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
      this.#check(this.#c.write_state(text, at, data.byteLength));
    });
  }

  #tensor(name) {
    const found = MODEL.state.find((tensor) => tensor.name === name);
    if (!found) throw new TypeError(`the state has no tensor '${name}'`);
    return found;
  }

  #named(name, bytes, use) {
    const text = this.#place(new TextEncoder().encode(`${name}\0`)), at = this.#room(bytes);
    try {
      use(text, at);
    } finally {
      this.#c.release(text);
      this.#c.release(at);
    }
  }

  #run(which, { inputs, outputs }, given) {
    for (const name of Object.keys(given))
      if (!inputs.some((i) => i.name === name))
        throw new TypeError(`there is no input '${name}': there are ${inputs.map((i) => i.name).join(", ")}`);
    const held = [];
    try {
      inputs.forEach((spec, index) => {
        const [data, dims] = taken(spec, given[spec.name]), at = this.#place(data);
        held.push(at);
        this.#c.input(which, index, at, data.byteLength, dims.length);
        dims.forEach((size, axis) => this.#c.input_dim(which, index, axis, size));
      });
      this.#check(this.#c.run(which));
      const results = {};
      outputs.forEach((spec, index) => { results[spec.name] = this.#result(which, index, spec); });
      this.#c.done(which);
      return results;
    } finally {
      for (const address of held) this.#c.release(address);
    }
  }

  #result(which, index, { dtype }) {
    const at = this.#c.output(which, index) >>> 0, bytes = this.#c.output_bytes(which, index) >>> 0;
    const rank = this.#c.output_rank(which, index);
    const dims = Array.from({ length: rank }, (_, axis) => this.#c.output_dim(which, index, axis) >>> 0);
    const data = new (arrayOf(dtype))(new Uint8Array(this.#c.memory.buffer, at, bytes).slice().buffer);
    return rank ? { data, dims } : data[0];
  }

  #room(bytes) {
    const at = this.#c.allocate(bytes) >>> 0;
    if (!at) throw new Error(`there is no memory for ${bytes} bytes`);
    return at;
  }

  #place(array) {
    const at = this.#room(array.byteLength);
    new Uint8Array(this.#c.memory.buffer).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    return at;
  }

  #check(code) {
    if (!code) return;
    const at = this.#c.error() >>> 0, bytes = new Uint8Array(this.#c.memory.buffer);
    throw new Error(new TextDecoder().decode(bytes.slice(at, bytes.indexOf(0, at))));
  }
}
