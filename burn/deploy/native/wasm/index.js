// A model compiled by burn: `const model = await load()`, then `model.run({name: typedArray})`. Works in browsers and in Node.
// MODEL is written by burn-compile; everything else is the same for every model.

const MODEL = "@MODEL@";

// @COMMON@

// ---- threads --------------------------------------------------------------------------------------------------------

const MOST_THREADS = 64, USUAL_THREADS = 16, STACK = 1 << 20;

/** How many threads there will be: one where workers cannot share memory. */
async function counted(asked) {
  const shares = typeof SharedArrayBuffer !== "undefined" && globalThis.crossOriginIsolated !== false;
  if (!MODEL.threadedBytes || !shares) return 1;
  const cores = async () => globalThis.navigator?.hardwareConcurrency ?? (await import("node:os")).availableParallelism();
  const wanted = asked ?? Math.min(await cores(), USUAL_THREADS);
  if (!Number.isInteger(wanted) || wanted < 1) throw new RangeError(`${wanted} is no number of threads`);
  return Math.min(wanted, MOST_THREADS);
}

/** Memory that threads share. Not everywhere may it grow as far as the module would let it. */
function sharedMemory([initial, most]) {
  for (let maximum = most; ; maximum /= 2)
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (error) {
      if (maximum / 2 < 2 * initial) throw error;
    }
}

/** A worker that has become a thread. */
async function started(data) {
  if (typeof Worker === "undefined") { // Node
    const { Worker: Thread } = await import("node:worker_threads");
    const made = new Thread(new URL("./worker.js", import.meta.url), { workerData: data, execArgv: [] });
    await new Promise((resolve, reject) => { made.once("message", resolve).once("error", reject); });
    made.unref(); // the program may end
    return made;
  }
  const made = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  made.postMessage(data);
  await new Promise((resolve, reject) => {
    made.onmessage = resolve;
    made.onerror = (event) => reject(new Error(`a thread cannot be started: ${event.message ?? "worker.js cannot be read"}`));
  });
  return made;
}

/** All threads but the caller's. */
async function threads(count, module, memory, { allocate, __tls_size }) {
  const made = Array.from({ length: count - 1 }, (_, number) => {
    const stack = allocate(STACK) >>> 0, own = allocate(__tls_size.value) >>> 0;
    if (!stack || !own) throw new Error("there is no memory for the threads");
    return started({ module, memory, number, stack: stack + STACK, own });
  });
  return Promise.all(made);
}

/** The body of worker.js: runs a thread of the model, and calls `ready`. */
export async function thread({ module, memory, number, stack, own }, ready) {
  const { exports } = await WebAssembly.instantiate(module, imports(module, () => memory));
  exports.__stack_pointer.value = stack;
  exports.__wasm_init_tls(own);
  ready();
  exports.thread(number); // for good
}

// ---- the model ------------------------------------------------------------------------------------------------------

/** Loads the model. base: the folder of its files; default: this module's. progress(loaded, total): bytes of both files; not called
 * after an error. threads: default: the number of cores; 1 if memory cannot be shared. */
export async function load(base = import.meta.url, { progress = () => {}, threads: asked } = {}) {
  const folder = new URL(base, globalThis.location?.href);
  const count = await counted(asked);
  const far = [[0, count > 1 ? MODEL.threadedBytes : MODEL.moduleBytes], [0, MODEL.weightsBytes]];
  const reading = new AbortController();
  const file = (name, which) => read(new URL(name, folder), (loaded) => {
    far[which][0] = loaded;
    progress(far[0][0] + far[1][0], far[0][1] + far[1][1]);
  }, reading.signal);
  const [code, weights] = await Promise.all([
    file(count > 1 ? "model-threads.wasm" : "model.wasm", 0), MODEL.weightsBytes ? file("weights.safetensors", 1) : new Uint8Array(),
  ]).catch((error) => {
    reading.abort();
    throw error;
  });
  if (weights.length !== MODEL.weightsBytes)
    throw new Error(`weights.safetensors is not this model's: it has ${weights.length} bytes, not ${MODEL.weightsBytes}`);
  const module = await WebAssembly.compile(code);
  const shared = count > 1 ? sharedMemory(MODEL.memoryPages) : undefined;
  const { exports } = await WebAssembly.instantiate(module, imports(module, () => shared ?? exports.memory));
  exports._initialize?.();
  const workers = count > 1 ? await threads(count, module, shared, exports) : [];
  if (count > 1) exports.set_threads(count);
  return new Model(exports, shared ?? exports.memory, weights, workers);
}

class Model {
  #c;
  #calls = 0n;
  #memory;
  #workers;

  constructor(exports, memory, weights, workers) {
    this.#c = exports;
    this.#memory = memory;
    this.#workers = workers;
    const at = this.#place(weights);
    if (!exports.start(at)) throw new Error("there is no memory for the model");
  }

  /** Names, element types and sizes. */
  get inputs() { return MODEL.inputs; }
  get outputs() { return MODEL.outputs; }

  /** How many threads there are, the caller's among them. */
  get threads() { return this.#workers.length + 1; }

  /** The seed of the random numbers that the model draws, if it does. */
  seed = 0n;

  /** One inference. An input is a typed array, or {data, dims} if its length does not determine its sizes. */
  run(inputs) {
    if (!this.#c) throw new Error("the model has been closed");
    for (const name of Object.keys(inputs))
      if (!MODEL.inputs.some((i) => i.name === name))
        throw new TypeError(`there is no input '${name}': there are ${MODEL.inputs.map((i) => i.name).join(", ")}`);
    const held = [];
    try {
      MODEL.inputs.forEach((spec, index) => held.push(this.#give(index, ...taken(spec, inputs[spec.name]))));
      if (MODEL.random)
        held.push(this.#give(MODEL.inputs.length, new BigUint64Array([BigInt(this.seed), this.#calls++]), [2]));
      const status = this.#c.run();
      if (status) throw new Error(this.#told(status));
      const results = {};
      MODEL.outputs.forEach((spec, index) => { results[spec.name] = this.#result(index, spec); });
      this.#c.done();
      return results;
    } finally {
      for (const address of held) this.#c.release(address);
    }
  }

  /** Ends the threads. The model cannot be run any more. */
  close() {
    for (const worker of this.#workers) worker.terminate();
    this.#c = undefined;
  }

  #place(array) {
    const address = this.#c.allocate(array.byteLength) >>> 0;
    if (!address) throw new Error(`there is no memory for ${array.byteLength} bytes`);
    new Uint8Array(this.#memory.buffer).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), address);
    return address;
  }

  #give(index, data, dims) {
    const address = this.#place(data);
    this.#c.input(index, address, data.byteLength, dims.length);
    dims.forEach((size, axis) => this.#c.input_dim(index, axis, size));
    return address;
  }

  #result(index, { dtype }) {
    const address = this.#c.output(index) >>> 0, bytes = this.#c.output_bytes(index) >>> 0;
    const dims = Array.from({ length: this.#c.output_rank(index) }, (_, axis) => this.#c.output_dim(index, axis) >>> 0);
    const copied = new Uint8Array(this.#memory.buffer, address, bytes).slice(); // in unshared memory
    return { data: new (arrayOf(dtype))(copied.buffer), dims };
  }

  #told(status) {
    const value = this.#c.failed_value(), site = MODEL.sites[this.#c.failed_site()] ?? "";
    const text = (MODEL.messages[status] ?? `status ${status}`).replace("{value}", value).replace("{site}", site);
    return status === 10 ? `input '${MODEL.inputs[value]?.name}' does not fit: it is ${MODEL.inputs[value]?.type}`
      : site && !text.includes(site) ? `${site}: ${text}` : text;
  }
}
