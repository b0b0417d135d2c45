// A model's addon (addon.c) as a class: `const model = new Model("./digits.node")`, then `await model.run({name: typedArray})`.
import { createRequire } from "node:module";
import { resolve } from "node:path";

/** Element types in the order of enum burn_element, each with the array that holds it. */
const TYPES = {
  float64: Float64Array, float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array,
  float8_e4m3fn: Uint8Array, float8_e4m3fnuz: Uint8Array, float8_e5m2: Uint8Array, float8_e5m2fnuz: Uint8Array,
  float8_e8m0fnu: Uint8Array, float4_e2m1fn: Uint8Array,
  int2: Int8Array, int4: Int8Array, int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint2: Uint8Array, uint4: Uint8Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  bool: Uint8Array, complex64: Float32Array, complex128: Float64Array,
};
const NUMBERS = Object.keys(TYPES);
const PARTS = { complex64: 2, complex128: 2 }; // numbers of an element

export class Model {
  #addon;
  #model;

  /** addon: the path of the compiled addon; weights: that of the file of weights, where they are not in the library. */
  constructor(addon, weights) {
    this.#addon = createRequire(import.meta.url)(resolve(addon));
    this.#model = this.#addon.create(weights);
    this.about = JSON.parse(this.#addon.about()); // names, element types and sizes of inputs and outputs
  }

  /** One inference. An input is a typed array, or {data, dims} where its sizes cannot be told from its length; it must not be
   * written until the promise is fulfilled, with {data, dims} of each output. Calls may overlap. */
  async run(inputs) {
    for (const name of Object.keys(inputs))
      if (!this.about.inputs.some((spec) => spec.name === name)) throw new TypeError(`there is no input '${name}'`);
    const results = await this.#addon.run(this.#model, this.about.inputs.map((spec) => tensor(spec, inputs[spec.name])));
    return Object.fromEntries(this.about.outputs.map(({ name, dtype }, i) =>
      [name, { data: new TYPES[dtype](results[i].data), dims: results[i].dims }]));
  }
}

function tensor({ name, dtype, dims }, given) {
  const data = ArrayBuffer.isView(given) ? given : given?.data, parts = PARTS[dtype] ?? 1;
  if (!(data instanceof TYPES[dtype])) throw new TypeError(`input '${name}' is no ${TYPES[dtype].name}, which ${dtype} takes`);
  const sizes = given.dims ?? told(name, dims, data.length / parts);
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { element: NUMBERS.indexOf(dtype), dims: sizes, data: bytes };
}

/** The sizes of so many elements, one of which may be open. The library checks them. */
function told(name, dims, length) {
  const known = dims.filter((size) => typeof size === "number").reduce((a, b) => a * b, 1);
  if (dims.filter((size) => typeof size === "string").length > 1 || !known)
    throw new TypeError(`input '${name}' needs its sizes: {data, dims}, as they are [${dims}]`);
  return dims.map((size) => (typeof size === "string" ? length / known : size));
}
