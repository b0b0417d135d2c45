// The errors of a model on WebGPU. Each has its class's name; `load` answers those that the adapter causes with the package for CPUs.

export class WebGPUError extends Error {
  get name() { return this.constructor.name; }
}

/** The browser has no WebGPU, or no adapter. */
export class NoAdapterError extends WebGPUError {}

/** The adapter or the browser lacks a feature that the model needs. */
export class MissingFeatureError extends WebGPUError {
  constructor(feature, message) {
    super(message ?? `the adapter has no '${feature}', which this model's kernels use`);
    this.feature = feature;
  }
}

/** A limit of the adapter is lower than the model needs. */
export class LimitError extends WebGPUError {
  constructor(limit, needed, available, what) {
    super(`${what} needs ${needed}; the adapter's ${limit} is ${available}`);
    Object.assign(this, { limit, needed, available });
  }
}

/** The GPU has no memory left for the model or a call. */
export class OutOfMemoryError extends WebGPUError {}

/** The device was lost: reset by its driver, removed, or taken by the system, perhaps while the page was hidden. */
export class DeviceLostError extends WebGPUError {
  constructor({ reason, message }, hidden) {
    super(`the GPU device was lost${hidden ? " while the page was hidden" : ""}: ${message || reason || "no reason is given"}; ` +
      "model.reload() starts again");
    Object.assign(this, { reason, hidden });
  }
}

/** The browser refuses a kernel or a command, which is a fault of burn or of the browser. */
export class RefusedError extends WebGPUError {}
