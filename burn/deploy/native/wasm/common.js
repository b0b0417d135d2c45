// Shared by the modules of models and of trainings, into which burn-compile copies this text.

const ARRAYS = {
  float64: Float64Array, float32: Float32Array, int64: BigInt64Array, uint64: BigUint64Array,
  int32: Int32Array, uint32: Uint32Array, int16: Int16Array, uint16: Uint16Array, float16: Uint16Array, bfloat16: Uint16Array,
  int8: Int8Array, int4: Int8Array, int2: Int8Array,
};

const arrayOf = (dtype) => ARRAYS[dtype] ?? Uint8Array;

/** Reads a file beside this module, or under `base`. progress(loaded, total): its bytes. signal: of an AbortController, ends it. */
async function read(url, progress, signal) {
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    const bytes = new Uint8Array(await readFile(url, { signal }));
    progress(bytes.length, bytes.length);
    return bytes;
  }
  const failed = (cause) => { throw new Error(`${url} cannot be read: ${cause.message}`, { cause }); };
  const answer = await fetch(url, { signal }).catch(failed);
  if (!answer.ok) throw new Error(`${url} cannot be read: ${answer.status} ${answer.statusText}`);
  const total = Number(answer.headers.get("content-length")) || 0;
  const parts = [];
  let length = 0;
  for (const reader = answer.body.getReader(); ;) {
    const { done, value } = await reader.read().catch(failed);
    signal?.throwIfAborted();
    if (done) break;
    parts.push(value);
    length += value.length;
    progress(length, total);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** The host functions of the module's C library: the time, and an environment without variables. */
function host(memory) {
  return {
    clock_time_get(_clock, _precision, at) {
      const time = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6));
      new DataView(memory().buffer).setBigUint64(at, time, true);
      return 0;
    },
    environ_sizes_get(count, bytes) {
      for (const at of [count, bytes]) new DataView(memory().buffer).setUint32(at, 0, true);
      return 0;
    },
    environ_get: () => 0,
  };
}

function imports(module, memory) {
  const offered = host(memory);
  const made = {};
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
    made[from] ??= {};
    made[from][name] = kind === "memory" ? memory()
      : offered[name] ?? (() => { throw new Error(`the module asked for ${from}.${name}`); });
  }
  return made;
}

/** An input's elements and sizes, checked against what it is. */
function taken(spec, given) {
  if (given === undefined || given === null) throw new TypeError(`input '${spec.name}' is missing: it is ${spec.type}`);
  const Wanted = arrayOf(spec.dtype);
  const data = ArrayBuffer.isView(given) ? given : given.data;
  if (!(data instanceof Wanted))
    throw new TypeError(`input '${spec.name}' is no ${Wanted.name}, which ${spec.type} takes`);
  let dims = ArrayBuffer.isView(given) ? undefined : given.dims;
  if (!dims) {
    const open = spec.dims.filter((d) => typeof d === "string").length;
    const known = spec.dims.reduce((product, d) => (typeof d === "string" ? product : product * d), 1);
    if (open > 1 || (open && !known))
      throw new TypeError(`input '${spec.name}' needs its sizes: {data, dims}, as it is ${spec.type}`);
    dims = spec.dims.map((d) => (typeof d === "string" ? data.length / known : d));
  }
  if (!Array.isArray(dims)) throw new TypeError(`input '${spec.name}' has sizes that are no array: {data, dims}`);
  if (dims.some((d) => !Number.isSafeInteger(d) || d < 0) || dims.reduce((a, b) => a * b, 1) !== data.length)
    throw new RangeError(`input '${spec.name}' has ${data.length} elements, which are not ${spec.type}`);
  return [data, dims];
}
