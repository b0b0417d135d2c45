// WebGPU for a module of WebAssembly: the functions of page.h, and transfers between the page and the GPU. The same for every model.
import { DeviceLostError, LimitError, MissingFeatureError, NoAdapterError, OutOfMemoryError, RefusedError, WebGPUError } from "./errors.js";

const STORAGE = 0x80, UNIFORM = 0x40, MAP_READ = 1; // GPUBufferUsage
export const COPY_FROM = 4, COPY_TO = 8;
const COMPUTE = 4, READ = 1; // GPUShaderStage, GPUMapMode
const SCOPES = ["out-of-memory", "validation", "internal"];

/** Those that the module reads, in the order of page.h. Adapters may have more than the defaults of the first three and the fifth. */
const LIMITS = [
  "maxStorageBuffersPerShaderStage", "maxStorageBufferBindingSize", "maxBufferSize", "minUniformBufferOffsetAlignment",
  "maxComputeWorkgroupsPerDimension", "maxComputeWorkgroupStorageSize",
];
const RAISED = ["maxStorageBuffersPerShaderStage", "maxStorageBufferBindingSize", "maxBufferSize", "maxComputeWorkgroupsPerDimension"];

const LEAST_PART = 65536; // bytes: driver_wgpu_heap.c

const padded = (bytes) => Math.ceil(bytes / 4) * 4;
const isHidden = () => globalThis.document?.visibilityState === "hidden";

export const closedError = () => new Error("the model has been closed");

/** True if WebAssembly can wait for the GPU during a call (JavaScript Promise Integration). */
export const canWait = () => typeof WebAssembly.Suspending === "function" && typeof WebAssembly.promising === "function";

/** A device for a model: the caller's, or one of an adapter of the browser's. Its `version` is the one of the model's that suits it: GPUs
 * that are a program on the CPU have other kernels. Throws a WebGPUError that names what is missing. model: what index.js has of it.
 * limits: lower ones than the adapter's. memory: bytes that the model may take of the GPU. kernels: the version, if it is not the
 * adapter's. */
export async function open(model, { device, powerPreference, limits = {}, memory, kernels } = {}) {
  if (device) {
    const version = versionOf(model, device.adapterInfo, kernels);
    return checked(new Gpu(device, false, limits, memory), version, device.features);
  }
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) throw new NoAdapterError("the browser has no WebGPU, or the page's origin is not secure");
  const adapter = await gpu.requestAdapter({ powerPreference });
  if (!adapter) throw new NoAdapterError("the browser has WebGPU, but no adapter for it");
  const version = versionOf(model, adapter.info, kernels);
  const requiredLimits = Object.fromEntries(RAISED.map((name) => [name, adapter.limits[name]]));
  const requiredFeatures = version.features.filter((feature) => adapter.features.has(feature));
  let own;
  try {
    own = await adapter.requestDevice({ requiredLimits, requiredFeatures, label: "burn" });
  } catch (error) {
    throw new NoAdapterError(`the adapter gives no device: ${error.message}`);
  }
  return checked(new Gpu(own, true, limits, memory), version, own.features);
}

/** The version for an adapter. Throws if it needs a browser that suspends WebAssembly, and this one does not. */
function versionOf(model, info, kernels) {
  const version = model[kernels ?? (info?.isFallbackAdapter ? "software" : "gpu")];
  if (version.waits && !canWait())
    throw new MissingFeatureError("JSPI", "the browser lacks JavaScript Promise Integration (JSPI): this model reads from the GPU during a call");
  return version;
}

/** Throws the error of the first thing that a model needs and the device does not have. */
function checked(gpu, model, features) {
  gpu.version = model;
  const missing = model.features.find((feature) => !features.has(feature));
  const sizes = model.constants.map(([, , bytes]) => bytes), largest = Math.max(0, ...sizes), index = sizes.indexOf(largest);
  const lanes = Math.min(gpu.limits.maxComputeInvocationsPerWorkgroup, gpu.limits.maxComputeWorkgroupSizeX);
  let error;
  if (missing) error = new MissingFeatureError(missing);
  else if (model.lanes > lanes) error = new LimitError("maxComputeInvocationsPerWorkgroup", model.lanes, lanes, "a workgroup of this model's kernels");
  else if (gpu.largestPart < LEAST_PART)
    error = new LimitError("maxStorageBufferBindingSize", LEAST_PART, gpu.limits.maxStorageBufferBindingSize, "the memory of a model");
  else if (largest > gpu.mostBytes)
    error = new LimitError("maxStorageBufferBindingSize", largest, gpu.limits.maxStorageBufferBindingSize,
      `the constant '${index}', ${model.constants[index][3]}, in ${gpu.behind} bindings`);
  if (error) gpu.close();
  if (error) throw error;
  return gpu;
}

export class Gpu {
  /** Why the device cannot be used any more. */
  failed;

  /** The version of the model that it runs. */
  version;

  #objects = [null];
  #unused = [];
  #prepared = new Map(); // the handles of texts' pipelines that are being compiled
  #entries = [];
  #deferred = []; // commands that are not submitted yet
  #hasLaunches = false; // among them
  #pending = []; // fetches whose words have not arrived
  #chunks = []; // staging buffers of the pending fetches
  #usual = 1 << 16;
  #checks = [];
  #own;
  #isClosed = false;

  constructor(device, own, limits, memory) {
    this.device = device;
    this.#own = own;
    const names = new Set([...LIMITS, "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxTextureDimension2D"]);
    this.limits = Object.fromEntries([...names].map((name) => [name, Math.min(device.limits[name], limits[name] ?? Infinity)]));
    this.mostOfOne = this.largestPart; // bytes of an input or output
    if (memory) this.#limitMemory(memory);
    device.lost.then((info) => {
      if (!this.#isClosed) this.failed ??= new DeviceLostError(info, isHidden());
    });
  }

  #limitMemory(bytes) {
    if (!(bytes >= LEAST_PART)) throw new RangeError(`memory is at least ${LEAST_PART} bytes, not ${bytes}`);
    const { maxStorageBufferBindingSize: binding, maxStorageBuffersPerShaderStage: buffers } = this.limits;
    this.limits.maxStorageBufferBindingSize = Math.min(binding, bytes);
    this.limits.maxStorageBuffersPerShaderStage = Math.max(1, Math.min(buffers, Math.floor(bytes / binding)));
  }

  /** The heap has so many parts, a binding each. Constants may lie in several, inputs and outputs in one. */
  get parts() { return Math.min(8, this.limits.maxStorageBuffersPerShaderStage, 2 ** 32 / this.largestPart); }

  /** The bytes of a part, a power of two. */
  get largestPart() {
    return 2 ** Math.min(31, Math.floor(Math.log2(Math.min(this.limits.maxStorageBufferBindingSize, this.limits.maxBufferSize))));
  }

  /** The parts that one constant may have: the first part begins with bytes of the driver. */
  get behind() { return Math.max(1, this.parts - 1); }
  get mostBytes() { return this.behind * this.largestPart; }

  // ---- kernels ------------------------------------------------------------------------------------------------------

  /** Compiles all kernels at the same time. kernels: pairs of a name and a text. compiled(done, total): called after each. */
  async prepare(kernels, compiled) {
    const buffers = [{ binding: 0, type: "storage" }, { binding: 1, type: "uniform", hasDynamicOffset: true }];
    const entries = buffers.map(({ binding, ...buffer }) => ({ binding, visibility: COMPUTE, buffer }));
    const layout = this.device.createPipelineLayout({ bindGroupLayouts: [this.device.createBindGroupLayout({ entries })] });
    let done = 0;
    for (const [, text] of kernels) this.#prepared.set(text, []);
    await Promise.all(kernels.map(async ([name, text]) => {
      const module = this.device.createShaderModule({ label: name, code: text });
      const compute = { module, entryPoint: name };
      try {
        const pipeline = await this.device.createComputePipelineAsync({ label: name, layout, compute });
        for (const number of this.#prepared.get(text)) this.#objects[number] = pipeline;
        this.#prepared.set(text, pipeline);
      } catch (error) {
        if (this.failed) throw this.failed;
        const { messages } = await module.getCompilationInfo();
        throw new RefusedError(`the browser refuses ${name}: ${messages[0]?.message ?? error.message}`);
      }
      compiled(++done, kernels.length);
    }));
  }

  // ---- the module's functions ---------------------------------------------------------------------------------------

  /** Imports for the module. memory(): its memory. constant(index): its bytes. */
  imports(memory, constant) {
    const { device } = this;
    const add = (object) => this.#add(object), at = (number) => this.#objects[number];
    const text = (address, length) => new TextDecoder().decode(new Uint8Array(memory().buffer, address, length).slice());
    const taken = () => this.#entries.splice(0);
    return {
      limit: (number) => this.limits[LIMITS[number]],
      lost: () => Number(this.failed instanceof DeviceLostError),
      release: (number) => this.#release(number),
      buffer: (usage, size) => add(device.createBuffer({ usage, size })),
      layout_entry: (binding, isUniform, isDynamic) => {
        const buffer = { type: isUniform ? "uniform" : "storage", hasDynamicOffset: Boolean(isDynamic) };
        this.#entries.push({ binding, visibility: COMPUTE, buffer });
      },
      group_layout: () => add(device.createBindGroupLayout({ entries: taken() })),
      pipeline_layout: (layout) => add(device.createPipelineLayout({ bindGroupLayouts: [at(layout)] })),
      group_entry: (binding, buffer, offset, size) => {
        this.#entries.push({ binding, resource: { buffer: at(buffer), offset, size } });
      },
      group: (layout) => add(device.createBindGroup({ layout: at(layout), entries: taken() })),
      module: (address, length) => add(text(address, length)),
      pipeline: (layout, module, address, length) => {
        const code = at(module), entryPoint = text(address, length), prepared = this.#prepared.get(code);
        if (!Array.isArray(prepared))
          return add(prepared ?? device.createComputePipeline({
            layout: at(layout), compute: { module: device.createShaderModule({ code }), entryPoint },
          }));
        const number = add(null); // until it has been compiled
        prepared.push(number);
        return number;
      },
      encoder: () => add(device.createCommandEncoder()),
      begin_pass: (encoder) => add(at(encoder).beginComputePass()),
      set_pipeline: (pass, pipeline) => at(pass).setPipeline(at(pipeline)),
      set_group: (pass, group, offset) => at(pass).setBindGroup(0, at(group), [offset >>> 0]),
      dispatch: (pass, x, y, z) => at(pass).dispatchWorkgroups(x >>> 0, y >>> 0, z >>> 0),
      end_pass: (pass) => at(pass).end(),
      copy: (encoder, from, fromOffset, to, toOffset, size) => at(encoder).copyBufferToBuffer(at(from), fromOffset, at(to), toOffset, size),
      finish: (encoder) => add(at(encoder).finish()),
      submit: (commands) => {
        this.#deferred.push(at(commands));
        this.#hasLaunches = true;
      },
      write: (buffer, offset, address, size) => {
        const target = at(buffer); // launches alone read the uniform buffer
        if (this.#hasLaunches || !(target.usage & UNIFORM)) this.submit();
        device.queue.writeBuffer(target, offset, memory().buffer, address >>> 0, size >>> 0);
      },
      constant: (index, first, bytes, buffer, offset) => this.upload(at(buffer), offset, constant(index).subarray(first, first + bytes)),
      fetch: (buffer, offset, room, skipped, to, bytes) => {
        this.#note(at(buffer), offset, room >>> 0, (words) => {
          new Uint8Array(memory().buffer, to >>> 0, bytes >>> 0).set(words.subarray(skipped, skipped + (bytes >>> 0)));
        });
      },
      drain: canWait() ? new WebAssembly.Suspending(() => this.#drained()) : () => {
        throw new MissingFeatureError("JSPI", "the browser lacks JavaScript Promise Integration (JSPI): a call reads from the GPU");
      },
    };
  }

  #add(object) {
    const number = this.#unused.pop() ?? this.#objects.length;
    this.#objects[number] = object;
    return number;
  }

  #release(number) {
    const object = this.#objects[number];
    if (globalThis.GPUBuffer && object instanceof GPUBuffer) {
      this.submit(); // commands may use it
      object.destroy();
    }
    this.#objects[number] = null;
    this.#unused.push(number);
  }

  /** The buffer of a handle. */
  object(number) { return this.#objects[number]; }

  // ---- transfers ----------------------------------------------------------------------------------------------------

  /** Submits all commands at once. */
  submit() {
    if (this.#deferred.length) this.device.queue.submit(this.#deferred.splice(0));
    this.#hasLaunches = false;
  }

  /** Commands of the page, behind those that there are. encode(encoder): records them. */
  add(encode) {
    const encoder = this.device.createCommandEncoder();
    encode(encoder);
    this.#deferred.push(encoder.finish());
  }

  /** Writes a typed array or bytes to a buffer. Bytes up to the next word are undefined. */
  upload(buffer, offset, array) {
    this.submit();
    const whole = array.byteLength - array.byteLength % 4, { queue } = this.device;
    if (whole) queue.writeBuffer(buffer, offset, array.buffer, array.byteOffset, whole);
    if (whole === array.byteLength) return;
    const rest = new Uint8Array(4);
    rest.set(new Uint8Array(array.buffer, array.byteOffset + whole, array.byteLength - whole));
    queue.writeBuffer(buffer, offset + whole, rest);
  }

  /** The bytes of a buffer, as a promise's value after `wait`. */
  fetch(buffer, offset, bytes) {
    let found = new Uint8Array();
    if (bytes) this.#note(buffer, offset, padded(bytes), (words) => { found = words.slice(0, bytes); });
    return () => found;
  }

  #note(buffer, offset, room, arrived) {
    let chunk = this.#chunks.at(-1);
    if (!chunk || chunk.used + room > chunk.size) {
      const size = Math.max(padded(room), this.#usual);
      chunk = { size, used: 0, buffer: this.device.createBuffer({ size, usage: MAP_READ | COPY_TO }) };
      this.#chunks.push(chunk);
    }
    const at = chunk.used;
    chunk.used += Math.ceil(room / 8) * 8;
    this.add((encoder) => encoder.copyBufferToBuffer(buffer, offset, chunk.buffer, at, room));
    this.#pending.push(() => arrived(new Uint8Array(chunk.mapped, at, room)));
  }

  /** Submits everything, and waits for all fetches. Throws the WebGPUError of the first failure. */
  async wait() {
    this.begin();
    try {
      this.submit();
    } finally {
      this.end();
    }
    const pending = this.#pending.splice(0), chunks = this.#chunks.filter((chunk) => chunk.used);
    try {
      await Promise.all(chunks.map((chunk) => chunk.buffer.mapAsync(READ, 0, Math.min(chunk.size, Math.ceil(chunk.used / 8) * 8))));
    } catch (error) {
      await this.#settle();
      throw this.failed ?? (this.failed = await this.#lossOr(error));
    }
    await this.#settle();
    for (const chunk of chunks) chunk.mapped = chunk.buffer.getMappedRange(0, Math.min(chunk.size, Math.ceil(chunk.used / 8) * 8));
    for (const arrive of pending) arrive();
    for (const chunk of chunks) chunk.buffer.unmap();
    this.#keep(chunks);
  }

  /** One staging buffer is kept, which is as large as all of this wait. */
  #keep(chunks) {
    if (chunks.length > 1) {
      this.#usual = Math.max(this.#usual, chunks.reduce((sum, chunk) => sum + chunk.size, 0));
      for (const chunk of this.#chunks.splice(0)) chunk.buffer.destroy();
    }
    for (const chunk of this.#chunks) chunk.used = 0;
  }

  /** Drops the commands that are not submitted. */
  forget() { this.#deferred.length = 0; }

  /** A mapping fails shortly before the loss of its device is announced, and if the model is closed. */
  async #lossOr(error) {
    if (this.#isClosed) return closedError();
    const soon = new Promise((resolve) => { setTimeout(resolve, 1000); });
    const info = await Promise.race([this.device.lost, soon]);
    return info ? new DeviceLostError(info, isHidden()) : new RefusedError(`memory of the GPU cannot be read: ${error.message}`);
  }

  async #drained() {
    this.end();
    try {
      await this.wait();
      return 0;
    } catch (error) {
      this.failed ??= error;
      return 1;
    } finally {
      this.begin();
    }
  }

  // ---- errors -------------------------------------------------------------------------------------------------------

  /** From here to `end`, errors of commands are noted. No await is between them: another user of the device may have scopes. */
  begin() { for (const scope of SCOPES) this.device.pushErrorScope(scope); }

  end() { for (const _ of SCOPES) this.#checks.push(this.device.popErrorScope()); }

  async #settle() {
    const found = (await Promise.all(this.#checks.splice(0).map((check) => check.catch(() => null)))).filter(Boolean);
    const memory = found.find((error) => globalThis.GPUOutOfMemoryError && error instanceof GPUOutOfMemoryError);
    if (this.#isClosed) throw closedError();
    if (memory) this.failed ??= new OutOfMemoryError(`the GPU has no memory left: ${memory.message}; model.reload() starts again`);
    else if (found.length) this.failed ??= new RefusedError(`the browser refuses a command: ${found[0].message}; model.reload() starts again`);
    if (this.failed) throw this.failed;
  }

  /** Gives everything back. */
  close() {
    this.#isClosed = true;
    if (this.#own) this.device.destroy();
    else for (const object of [...this.#objects, ...this.#chunks.map((chunk) => chunk.buffer)])
      if (globalThis.GPUBuffer && object instanceof GPUBuffer) object.destroy();
    this.#objects = [null];
  }

  /** A buffer of the caller's, for a result. */
  result(bytes) {
    return this.device.createBuffer({ size: Math.max(4, padded(bytes)), usage: STORAGE | COPY_FROM | COPY_TO });
  }
}

export { WebGPUError, padded };
