// WebGPU for Node without kernels: buffers are bytes, copies and writes are done in order at their submission, and dispatches are
// counted. So a test sees what a package asks for: submissions, pipelines, bind groups, memory.
class GPUBuffer {
  constructor(device, { size, usage }) {
    Object.assign(this, { device, size, usage, bytes: new Uint8Array(size) });
    device.alive.add(this);
  }

  async mapAsync() {
    await new Promise((resolve) => { setTimeout(resolve, 2); });
    if (this.isDestroyed) throw new DOMException("the buffer is destroyed", "AbortError");
    if (this.device.isLost) throw new DOMException("the device is lost", "AbortError");
  }

  getMappedRange(offset, size) { return this.bytes.slice(offset, offset + size).buffer; }
  unmap() {}

  destroy() {
    this.isDestroyed = true;
    this.device.alive.delete(this);
  }
}

class GPUOutOfMemoryError {
  constructor(message) { this.message = message; }
}

class Encoder {
  constructor(counts) { Object.assign(this, { counts, steps: [] }); }

  copyBufferToBuffer(from, fromOffset, to, toOffset, size) {
    if (fromOffset % 4 || toOffset % 4 || size % 4) throw new RangeError("copies are of whole words");
    if (fromOffset + size > from.size || toOffset + size > to.size) throw new RangeError("a copy leaves its buffer");
    this.steps.push(() => {
      if (from.isDestroyed || to.isDestroyed) throw new Error("a copy has a destroyed buffer");
      to.bytes.set(from.bytes.subarray(fromOffset, fromOffset + size), toOffset);
    });
  }

  beginComputePass() {
    const { counts, steps } = this;
    return {
      setPipeline(pipeline) { if (!pipeline?.compute) throw new TypeError("this is no pipeline"); },
      setBindGroup(index, group, offsets) { Object.assign(this, { group, offsets }); },
      dispatchWorkgroups() { steps.push(() => { counts.dispatches++; }); },
      end() {},
    };
  }

  finish() { return this.steps; }
}

/** A device. errors: those that error scopes find, by their filter. texts: of its shaders. alive: its buffers that are not destroyed. */
export class Device {
  constructor(limits, features) {
    Object.assign(this, { limits, features: new Set(features), errors: {}, scopes: [], texts: [], alive: new Set() });
    this.counts = { submits: 0, dispatches: 0, groups: 0, pipelines: 0, later: 0, buffers: 0 };
    this.lost = new Promise((resolve) => { this.lose = resolve; });
    this.queue = {
      writeBuffer: (buffer, offset, data, start = 0, size = undefined) => {
        const whole = ArrayBuffer.isView(data) ? data : new Uint8Array(data);
        const bytes = ArrayBuffer.isView(data) ? new Uint8Array(whole.buffer, whole.byteOffset, whole.byteLength) : whole.subarray(start, size === undefined ? undefined : start + size);
        if (offset % 4 || bytes.length % 4 || offset + bytes.length > buffer.size) throw new RangeError("a write of no whole words, or outside");
        buffer.bytes.set(bytes, offset);
      },
      submit: (commands) => {
        this.counts.submits++;
        try {
          for (const steps of commands) for (const step of steps) step();
        } catch (error) {
          this.fail(error);
        }
      },
    };
  }

  destroy() {
    this.isLost = true;
    this.lose({ reason: "destroyed", message: "it was destroyed" });
  }

  pushErrorScope(filter) { this.scopes.push({ filter }); }
  async popErrorScope() {
    const { filter, error } = this.scopes.pop(), found = error ?? this.errors[filter] ?? null;
    delete this.errors[filter];
    return found;
  }

  /** An error of a submission: the innermost open scope has it, else nobody. */
  fail(error) {
    const scope = this.scopes.findLast(({ filter }) => filter === "validation");
    if (scope) scope.error ??= error;
  }

  createBuffer(descriptor) {
    this.counts.buffers++;
    if (descriptor.size > this.limits.maxBufferSize) throw new RangeError("a buffer is too large");
    return new GPUBuffer(this, descriptor);
  }

  createBindGroupLayout(descriptor) { return descriptor; }
  createPipelineLayout(descriptor) { return descriptor; }
  createBindGroup(descriptor) {
    this.counts.groups++;
    return descriptor;
  }

  createShaderModule(descriptor) {
    this.texts.push(descriptor.code);
    return { ...descriptor, getCompilationInfo: async () => ({ messages: [] }) };
  }

  createComputePipeline(descriptor) {
    this.counts.later++;
    return descriptor;
  }

  async createComputePipelineAsync(descriptor) {
    await new Promise((resolve) => { setTimeout(resolve, 20); });
    this.counts.pipelines++;
    return descriptor;
  }

  createCommandEncoder() { return new Encoder(this.counts); }
}

/** Puts a GPU into this program whose adapter has these limits, features and info. gone: there is no adapter. Gives the list of
 * devices. */
export function install({ limits = {}, features = [], info = {}, gone = false } = {}) {
  const devices = [];
  const own = {
    maxStorageBuffersPerShaderStage: 8, maxStorageBufferBindingSize: 128 << 20, maxBufferSize: 256 << 20,
    minUniformBufferOffsetAlignment: 256, maxComputeWorkgroupsPerDimension: 65535, maxComputeWorkgroupStorageSize: 16384,
    maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupSizeX: 256, maxTextureDimension2D: 8192, ...limits,
  };
  const adapter = {
    limits: own,
    info,
    features: new Set(features),
    requestDevice: async ({ requiredFeatures }) => {
      devices.push(Object.assign(new Device(own, requiredFeatures), { adapterInfo: info }));
      return devices.at(-1);
    },
  };
  Object.assign(globalThis, { GPUBuffer, GPUOutOfMemoryError });
  Object.defineProperty(globalThis, "navigator", {
    value: { gpu: { requestAdapter: async () => (gone ? null : adapter) } }, configurable: true,
  });
  return devices;
}
