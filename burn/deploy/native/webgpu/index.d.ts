/** A tensor: elements in row-major order, and sizes. */
export interface Tensor<Data> {
  data: Data;
  dims: number[];
}

/** A tensor in a buffer of `Model.device`, with the usage COPY_SRC, from `offset` bytes on. */
export interface GPUTensor {
  buffer: GPUBuffer;
  dims: number[];
  offset?: number;
}

/** An output that stays on the GPU. The caller destroys its buffer. */
export interface GPUOutput {
  buffer: GPUBuffer;
  dims: number[];
  bytes: number;
}

export type PictureSource =
  | ImageBitmap | VideoFrame | HTMLVideoElement | HTMLImageElement | HTMLCanvasElement | OffscreenCanvas | ImageData;

/** A picture as an input float32[1, c, h, w] or float32[1, h, w, c]. A pixel's colours from 0 to 1 become (colour - mean) / std. */
export interface Picture {
  image: PictureSource;
  /** How it fills the input: stretched (default), whole with `pad` beside it, or cut. */
  fit?: "stretch" | "contain" | "cover";
  mean?: number | [number, number, number];
  std?: number | [number, number, number];
  /** The elements beside the picture; default 0. */
  pad?: number;
  order?: "rgb" | "bgr";
}

export interface Inputs {
  // @INPUTS@
}

export interface Outputs {
  // @OUTPUTS@
}

type Output<Data> = Tensor<Data>;

/** An input or output: a dim is a size, or the name of one that a call chooses. */
export interface Value {
  name: string;
  dtype: string;
  dims: (number | string)[];
  type: string;
}

export interface Model {
  /** "cpu" if `load` has loaded the package for CPUs. */
  readonly backend: "webgpu" | "cpu";
  /** Why the model runs on the CPU. */
  readonly reason?: WebGPUError;
  readonly inputs: Value[];
  readonly outputs: Value[];
  /** The device, for buffers of the caller's; undefined on the CPU. */
  readonly device?: GPUDevice;
  /** Bytes of the GPU's memory that the model holds; undefined on the CPU. */
  readonly usedBytes?: number;
  /** The seed of the random numbers that the model draws, if it does. */
  seed: bigint | number;
  /** One inference. Calls run one after the other. Throws a WebGPUError for failures of the GPU. */
  run(inputs: Inputs): Promise<Outputs>;
  /** The same. All outputs stay on the GPU, or those that are named, in a new buffer or the given one. */
  run(inputs: Inputs, options: { outputs: "gpu" }): Promise<Record<keyof Outputs, GPUOutput>>;
  run(
    inputs: Inputs, options: { outputs: Partial<Record<keyof Outputs, "gpu" | GPUBuffer>> },
  ): Promise<{ [Name in keyof Outputs]: Outputs[Name] | GPUOutput }>;
  /** Starts again with a new device, after a DeviceLostError or OutOfMemoryError. Has no effect on the CPU. */
  reload(): Promise<void>;
  /** Gives the GPU's memory back. The model cannot be run before `reload`. */
  close(): void;
}

export interface Options {
  /** Receives how many bytes of all files have been read, and how many there are. */
  progress?: (loaded: number, total: number) => void;
  /** Receives how many kernels have been compiled, and how many there are. */
  compiled?: (done: number, total: number) => void;
  /** The package for CPUs if the GPU cannot run the model ("cpu", the default), or an error ("none"). */
  fallback?: "cpu" | "none";
  /** Receives the reason before the package for CPUs is loaded; default: console.warn. */
  announce?: (reason: WebGPUError) => void;
  /** A device to use instead of an own one. The caller destroys it. */
  device?: GPUDevice;
  powerPreference?: GPUPowerPreference;
  /** Limits that are lower than the adapter's. */
  limits?: Record<string, number>;
  /** Bytes that the model may take of the GPU's memory. */
  memory?: number;
  /** The kernels for adapters that run on the CPU ("software"), or for GPUs ("gpu"); default: what the adapter says it is. */
  kernels?: "gpu" | "software";
  /** Threads of the package for CPUs. */
  threads?: number;
}

/** Loads the model. base: the folder of its files, this module's by default. */
export function load(base?: string | URL, options?: Options): Promise<Model>;

export class WebGPUError extends Error {}
/** The browser has no WebGPU, or no adapter. */
export class NoAdapterError extends WebGPUError {}
/** The adapter or the browser lacks a feature that the model needs. */
export class MissingFeatureError extends WebGPUError {
  readonly feature: string;
}
/** A limit of the adapter is lower than the model needs. */
export class LimitError extends WebGPUError {
  readonly limit: string;
  readonly needed: number;
  readonly available: number;
}
/** The GPU has no memory left. */
export class OutOfMemoryError extends WebGPUError {}
/** The device was lost. */
export class DeviceLostError extends WebGPUError {
  readonly reason: string;
  readonly hidden: boolean;
}
/** The browser refuses a kernel or a command. */
export class RefusedError extends WebGPUError {}
