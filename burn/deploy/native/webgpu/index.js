// A model compiled by burn for WebGPU: `const model = await load()`, then `await model.run({name: typedArray})`.
// MODEL is written by burn-compile; everything else is the same for every model.
import { LimitError, OutOfMemoryError, RefusedError, WebGPUError } from "./errors.js";
import { COPY_FROM, COPY_TO, canWait, closedError, open, padded } from "./gpu.js";
import { Pictures, elements, pictureOf, pixelsOf, planOf } from "./picture.js";

export * from "./errors.js";

const MODEL = "@MODEL@";

// @COMMON@

const OUT_OF_MEMORY = 1, INPUT_MISMATCH = 10, DEVICE_FAILED = 17; // burn_status

const isGPUTensor = (value) => globalThis.GPUBuffer && value?.buffer instanceof GPUBuffer;

/** Loads the model. base: the folder of its files; default: this module's.
 *
 * progress(loaded, total): bytes of all files. compiled(done, total): kernels. Neither is called after an error. fallback: "cpu", the
 * package for CPUs if the browser or its GPU cannot run the model, or "none", an error. announce(reason): called before that; default:
 * console.warn. device: a GPUDevice to use. powerPreference: of the adapter. limits: lower ones than the adapter's. memory: bytes that the
 * model may take of the GPU. kernels: "software" for adapters that run on the CPU, or "gpu"; default: what the adapter says it is. */
export async function load(base = import.meta.url, options = {}) {
  const folder = new URL(base, globalThis.location?.href);
  const { fallback = "cpu", kernels } = options;
  if (!["cpu", "none"].includes(fallback)) throw new TypeError(`'${fallback}' is no fallback: there are cpu and none`);
  if (![undefined, "gpu", "software"].includes(kernels)) throw new TypeError(`there are no kernels '${kernels}': there are gpu and software`);
  try {
    const model = new Model(folder, options);
    await model.reload();
    return model;
  } catch (reason) {
    if (fallback === "none" || !(reason instanceof WebGPUError)) throw reason;
    const announce = options.announce ?? ((why) => console.warn(`the model runs on the CPU: ${why.name}: ${why.message}`));
    announce(reason);
    return onCPU(folder, options, reason);
  }
}

/** Throws a TypeError for a name that is none of an input's (output's). */
function checkNames(given, kind, values) {
  for (const name of Object.keys(given))
    if (!values.some((value) => value.name === name))
      throw new TypeError(`there is no ${kind} '${name}': there are ${values.map((value) => value.name).join(", ")}`);
}

/** Throws a TypeError for a buffer of the caller's that copies cannot use. */
function checkBuffer(what, buffer, usage, usageName) {
  if (!(buffer.usage & usage)) throw new TypeError(`${what}: its buffer lacks the usage ${usageName}`);
  if ((buffer.mapState ?? "unmapped") !== "unmapped") throw new TypeError(`${what}: its buffer is mapped`);
}

/** Throws a TypeError for outputs that are no "gpu", GPUBuffers, or names with these. */
function checkWanted(wanted) {
  if (wanted === "gpu") return;
  if (typeof wanted !== "object" || wanted === null || wanted instanceof GPUBuffer) throw new TypeError(`outputs are "gpu" or {name: "gpu" or a GPUBuffer}, not ${wanted}`);
  checkNames(wanted, "output", MODEL.outputs);
  for (const [name, to] of Object.entries(wanted)) {
    if (to === "gpu" || to === undefined) continue;
    if (!(to instanceof GPUBuffer)) throw new TypeError(`output '${name}' goes to "gpu" or a GPUBuffer`);
    checkBuffer(`output '${name}'`, to, COPY_TO, "COPY_DST");
  }
}

// ---- the CPU ----------------------------------------------------------------------------------------------------------

async function onCPU(folder, { progress, threads }, reason) {
  const { load: loadCPU } = await import(new URL("cpu/index.js", folder));
  return new CPUModel(await loadCPU(new URL("cpu/", folder), { progress, threads }), reason);
}

/** The same interface over the package for CPUs. */
class CPUModel {
  #model;

  constructor(model, reason) {
    this.#model = model;
    this.reason = reason;
  }

  get backend() { return "cpu"; }
  get inputs() { return MODEL.inputs; }
  get outputs() { return MODEL.outputs; }
  get seed() { return this.#model.seed; }
  set seed(seed) { this.#model.seed = seed; }

  async run(inputs, { outputs } = {}) {
    checkNames(inputs, "input", MODEL.inputs);
    if (outputs) throw new TypeError("outputs on the GPU: the model runs on the CPU");
    const given = MODEL.inputs.map((spec) => {
      const value = inputs[spec.name];
      if (isGPUTensor(value)) throw new TypeError(`input '${spec.name}' is on the GPU: the model runs on the CPU`);
      const picture = pictureOf(value);
      if (!picture) return [spec.name, value];
      const plan = planOf(spec, picture);
      return [spec.name, { data: elements(pixelsOf(picture), picture, plan), dims: plan.dims }];
    });
    return this.#model.run(Object.fromEntries(given.filter(([, value]) => value !== undefined)));
  }

  async reload() {}
  close() { this.#model.close(); }
}

// ---- WebGPU -----------------------------------------------------------------------------------------------------------

class Model {
  #version; // MODEL.gpu or MODEL.software
  #folder;
  #options;
  #gpu;
  #c;
  #memory;
  #pictures;
  #calls = 0n;
  #last = Promise.resolve(); // of the calls and reloads, which run one after the other
  #closings = 0;
  #refused; // the error of the last reload, if it failed

  constructor(folder, options) {
    this.#folder = folder;
    this.#options = options;
  }

  get backend() { return "webgpu"; }

  /** Names, element types and sizes. */
  get inputs() { return MODEL.inputs; }
  get outputs() { return MODEL.outputs; }

  /** The GPUDevice, for the caller's own buffers and kernels. */
  get device() { return this.#gpu?.device; }

  /** Bytes of the GPU's memory that the model holds now: constants, and room for calls. */
  get usedBytes() { return this.#c?.used_bytes() ?? 0; }

  /** The seed of the random numbers that the model draws, if it does. */
  seed = 0n;

  /** Starts again with a new device, after an error that names the loss of the old one. Throws as `load` does with the fallback
   * "none". */
  reload() {
    const closings = this.#closings, done = this.#last.then(() => this.#reload(closings));
    this.#last = done.catch(() => {});
    return done;
  }

  async #reload(closings) {
    const loading = new AbortController();
    this.#drop();
    this.#refused = undefined;
    let gpu;
    try {
      gpu = await open(MODEL, this.#options);
      await this.#start(gpu, closings, loading.signal);
    } catch (error) {
      loading.abort();
      gpu?.close();
      this.#refused = gpu?.failed ?? error;
      throw this.#refused;
    }
  }

  /** signal: of an error, after which nothing is read or reported. */
  async #start(gpu, closings, signal) {
    const { progress = () => {}, compiled = () => {} } = this.#options, { version } = gpu;
    const { module: [moduleFile], texts: [textsFile] } = version;
    const sizes = Object.fromEntries([version.module, version.texts, ...version.weights]);
    const far = Object.fromEntries(Object.keys(sizes).map((name) => [name, 0]));
    const total = Object.values(sizes).reduce((a, b) => a + b, 0);
    const file = async (name) => {
      const found = await read(new URL(name, this.#folder), (loaded) => {
        far[name] = loaded;
        progress(Object.values(far).reduce((a, b) => a + b, 0), total);
      }, signal);
      if (found.length !== sizes[name])
        throw new Error(`${name} is not this model's: it has ${found.length} bytes, not ${sizes[name]}`);
      return found;
    };
    const texts = file(textsFile);
    const compiling = texts.then((text) => gpu.prepare(bodies(version.kernels, text), (...counts) => {
      if (!signal.aborted) compiled(...counts);
    }));
    compiling.catch(() => {}); // awaited below
    const [kernels, weights, module] = await Promise.all([
      texts, Promise.all(version.weights.map(([name]) => file(name))), file(moduleFile).then((code) => WebAssembly.compile(code)),
    ]);
    let memory;
    const constant = (index) => {
      const [number, at, bytes] = version.constants[index];
      return weights[number].subarray(at, at + bytes);
    };
    const { exports } = await WebAssembly.instantiate(module, {
      ...imports(module, () => memory), webgpu: gpu.imports(() => memory, constant),
    });
    memory = exports.memory;
    exports._initialize?.();
    const address = exports.allocate(kernels.length + 1) >>> 0;
    if (!address) throw new OutOfMemoryError(`there is no memory for ${kernels.length} bytes of kernels`);
    new Uint8Array(memory.buffer).set(kernels, address);
    gpu.begin();
    const isStarted = exports.start(address);
    gpu.end();
    exports.release(address);
    if (!isStarted) throw new OutOfMemoryError(`the model cannot be started: ${textAt(memory, exports.error())}`);
    await Promise.all([compiling, gpu.wait()]);
    exports.fetched();
    if (this.#closings !== closings) throw closedError();
    this.#gpu = gpu;
    this.#version = version;
    this.#memory = memory;
    this.#pictures = new Pictures(gpu);
    const waiting = (call) => (canWait() ? WebAssembly.promising(call) : call);
    this.#c = { ...exports, run: version.waits ? waiting(exports.run) : exports.run };
  }

  /** One inference. Calls run one after the other. An input is one of these:
   * - a typed array, or {data, dims} if its length does not determine its sizes
   * - {buffer, dims, offset} with a GPUBuffer of `device`
   * - a picture, {image, fit, mean, std, pad, order}
   *
   * outputs: "gpu" for all, or {name: "gpu" or a GPUBuffer}. These stay on the GPU, and are {buffer, dims, bytes}. */
  run(inputs, { outputs = {} } = {}) {
    const called = this.#last.then(() => this.#call(inputs, outputs));
    this.#last = called.catch(() => {});
    return called;
  }

  async #call(inputs, wanted) {
    if (!this.#c) throw this.#refused ?? closedError();
    const gpu = this.#gpu, c = this.#c;
    if (gpu.failed) throw gpu.failed;
    checkNames(inputs, "input", MODEL.inputs);
    checkWanted(wanted);
    const held = [];
    let hasOutputs = false;
    try {
      gpu.begin();
      let status;
      try {
        try {
          MODEL.inputs.forEach((spec, index) => this.#give(held, index, spec, inputs[spec.name]));
          if (MODEL.random) {
            const state = new BigUint64Array([BigInt(this.seed), this.#calls++]);
            this.#upload(held, MODEL.inputs.length, state, [2]);
          }
        } catch (error) {
          gpu.forget();
          throw error;
        }
        const running = c.run();
        status = typeof running === "number" ? running : await running;
        hasOutputs = !status;
      } finally {
        gpu.end();
      }
      if (status) throw await this.#failure(status);
      let results;
      gpu.begin();
      try {
        results = MODEL.outputs.map((spec, index) => this.#result(index, spec, wanted === "gpu" ? "gpu" : wanted[spec.name]));
      } finally {
        gpu.end();
      }
      await gpu.wait();
      c.fetched();
      const reported = c.finish();
      if (reported) throw await this.#failure(reported);
      return Object.fromEntries(results.map((result, index) => [MODEL.outputs[index].name, result()]));
    } finally {
      if (hasOutputs) c.done();
      for (const address of held) c.device_release(address);
    }
  }

  // ---- inputs -------------------------------------------------------------------------------------------------------

  /** Writes an input into the heap. held: gets its address, also if the value then cannot be read. */
  #give(held, index, spec, value) {
    const picture = pictureOf(value);
    if (picture) {
      const plan = planOf(spec, picture), side = Math.max(picture.width, picture.height), most = this.#gpu.limits.maxTextureDimension2D;
      if (side > most) throw new LimitError("maxTextureDimension2D", side, most, `the picture of input '${spec.name}'`);
      const address = this.#room(held, index, 4 * plan.dims.reduce((a, b) => a * b, 1), plan.dims);
      this.#pictures.write(picture, plan, ...this.#at(address));
      return;
    }
    if (!isGPUTensor(value)) {
      this.#upload(held, index, ...taken(spec, value));
      return;
    }
    const { buffer, dims, offset = 0 } = value, what = `input '${spec.name}'`, size = arrayOf(spec.dtype).BYTES_PER_ELEMENT;
    if (!Array.isArray(dims) || dims.some((d) => !Number.isSafeInteger(d) || d < 0))
      throw new TypeError(`input '${spec.name}' needs its sizes: {buffer, dims}, as it is ${spec.type}`);
    const bytes = size * dims.reduce((a, b) => a * b, 1);
    checkBuffer(what, buffer, COPY_FROM, "COPY_SRC");
    if (!(offset >= 0) || offset % 4 || offset + padded(bytes) > buffer.size)
      throw new RangeError(`${what}: ${bytes} bytes at ${offset}, in whole words, are not in its buffer of ${buffer.size}`);
    const [to, at] = this.#at(this.#room(held, index, bytes, dims));
    if (bytes) this.#gpu.add((encoder) => encoder.copyBufferToBuffer(buffer, offset, to, at, padded(bytes)));
  }

  #upload(held, index, data, dims) {
    const address = this.#room(held, index, data.byteLength, dims);
    this.#gpu.upload(...this.#at(address), data);
  }

  /** Memory for an input. */
  #room(held, index, bytes, dims) {
    this.#checkSize(`input '${MODEL.inputs[index]?.name}'`, bytes);
    const address = this.#c.device_allocate(bytes) >>> 0;
    if (!address) throw new OutOfMemoryError(`the GPU has no room for an input of ${bytes} bytes: ${textAt(this.#memory, this.#c.device_error())}`);
    held.push(address);
    this.#c.input(index, address, bytes, dims.length);
    dims.forEach((size, axis) => this.#c.input_dim(index, axis, size));
    return address;
  }

  /** An input or output is in one buffer. */
  #checkSize(what, bytes) {
    const { mostOfOne, limits } = this.#gpu;
    if (bytes > mostOfOne) throw new LimitError("maxStorageBufferBindingSize", bytes, limits.maxStorageBufferBindingSize, what);
  }

  #at(address) { return [this.#gpu.object(this.#c.buffer_of(address)), this.#c.offset_of(address)]; }

  // ---- outputs ------------------------------------------------------------------------------------------------------

  /** A function that gives an output when the wait has ended. */
  #result(index, { name, dtype }, wanted) {
    const c = this.#c, gpu = this.#gpu, address = c.output(index) >>> 0, bytes = c.output_bytes(index) >>> 0;
    const dims = Array.from({ length: c.output_rank(index) }, (_, axis) => c.output_dim(index, axis) >>> 0);
    const Wanted = arrayOf(dtype);
    if (!c.output_on_device(index)) {
      const copied = new Uint8Array(this.#memory.buffer, address, bytes).slice();
      if (wanted) throw new TypeError(`output '${name}' is computed on the CPU: it cannot stay on the GPU`);
      return () => ({ data: new Wanted(copied.buffer), dims });
    }
    this.#checkSize(`output '${name}'`, bytes);
    const [from, at] = this.#at(address);
    if (!wanted) {
      const words = gpu.fetch(from, at, bytes);
      return () => ({ data: new Wanted(words().buffer), dims });
    }
    const buffer = wanted === "gpu" ? gpu.result(bytes) : wanted;
    if (buffer.size < padded(bytes)) throw new RangeError(`output '${name}' takes ${padded(bytes)} bytes; its buffer has ${buffer.size}`);
    if (bytes) gpu.add((encoder) => encoder.copyBufferToBuffer(from, at, buffer, 0, padded(bytes)));
    return () => ({ buffer, dims, bytes });
  }

  /** The error of a burn_status. */
  async #failure(status) {
    if (!this.#c) return closedError(); // closed during the call
    const value = this.#c.failed_value(), site = this.#version.sites[this.#c.failed_site()] ?? "";
    const text = (MODEL.messages[status] ?? `status ${status}`).replace("{value}", value).replace("{site}", site);
    if (status === DEVICE_FAILED) return this.#gpu.failed ?? new RefusedError(`${text}: ${textAt(this.#memory, this.#c.device_error())}`);
    if (status === OUT_OF_MEMORY) return new OutOfMemoryError(text);
    if (status === INPUT_MISMATCH) return new TypeError(`input '${MODEL.inputs[value]?.name}' does not fit: it is ${MODEL.inputs[value]?.type}`);
    return new Error(site && !text.includes(site) ? `${site}: ${text}` : text);
  }

  /** Gives the GPU's memory back. The model cannot be run before `reload`. */
  close() {
    this.#closings++;
    this.#refused = undefined;
    this.#drop();
  }

  #drop() {
    this.#pictures?.close();
    this.#gpu?.close();
    this.#gpu = this.#c = this.#pictures = undefined;
  }
}

/** The kernels' names and their texts, each behind its first line. */
function bodies(kernels, text) {
  let at = 0;
  return kernels.map(([name, bytes]) => {
    const whole = new TextDecoder().decode(text.subarray(at, at += bytes));
    return [name, whole.slice(whole.indexOf("\n") + 1)];
  });
}

function textAt(memory, address) {
  const bytes = new Uint8Array(memory.buffer, address >>> 0);
  return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
}

