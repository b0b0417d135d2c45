// Pictures as inputs of models: sizes, resampling and normalization, on the GPU (WGSL) and on the CPU. The same for every model.
//
// A pixel of the result is the mean of the pixels that it covers if the picture shrinks, and an interpolation of the four nearest ones
// if it grows. Both versions compute the same.

const SOURCES = ["ImageBitmap", "VideoFrame", "HTMLVideoElement", "HTMLImageElement", "HTMLCanvasElement", "OffscreenCanvas", "ImageData"];
const is = (value, name) => Boolean(globalThis[name]) && value instanceof globalThis[name];
const isSource = (value) => SOURCES.some((name) => is(value, name));

/** The picture of an input, {image, fit, mean, std, pad, order}, or undefined for other values. */
export function pictureOf(value) {
  const given = isSource(value) ? { image: value } : value;
  if (!isSource(given?.image)) return undefined;
  const { image, fit = "stretch", mean = 0, std = 1, pad = 0, order = "rgb" } = given;
  if (!["stretch", "contain", "cover"].includes(fit)) throw new TypeError(`'${fit}' is no fit: there are stretch, contain and cover`);
  if (!["rgb", "bgr"].includes(order)) throw new TypeError(`'${order}' is no order of colours: there are rgb and bgr`);
  const three = (of) => (typeof of === "number" ? [of, of, of] : [...of]);
  return { image, fit, pad, order, mean: three(mean), std: three(std), ...sizeOf(image) };
}

function sizeOf(image) {
  const width = image.displayWidth ?? image.videoWidth ?? image.naturalWidth ?? image.width;
  const height = image.displayHeight ?? image.videoHeight ?? image.naturalHeight ?? image.height;
  if (!width || !height) throw new TypeError("the picture has no pixels: it is closed, or not loaded yet");
  return { width, height };
}

/** How an input takes a picture: its sizes, and which of them are channels, rows and columns. Sizes that the model leaves open are the
 * picture's. */
export function planOf(spec, { width, height }) {
  const { name, dtype, dims, type } = spec, last = dims.slice(-3), batch = dims.slice(0, -3);
  const isPlanar = last[0] === 3 || last[0] === 1;
  if (dtype !== "float32" || last.length < 3 || !(isPlanar || last[2] === 3 || last[2] === 1) || batch.some((d) => typeof d === "number" && d !== 1))
    throw new TypeError(`input '${name}' is ${type}: a picture fits float32[1, c, h, w] or float32[1, h, w, c] with 1 or 3 channels`);
  const channels = isPlanar ? last[0] : last[2];
  const [h, w] = isPlanar ? last.slice(1) : last;
  const rows = typeof h === "number" ? h : height, columns = typeof w === "number" ? w : width;
  const sizes = isPlanar ? [channels, rows, columns] : [rows, columns, channels];
  return { channels, rows, columns, isPlanar, dims: [...batch.map(() => 1), ...sizes] };
}

/** The part of the result that a picture fills, in its pixels, which may lie beyond its edges. */
function boxOf({ fit, width, height }, { rows, columns }) {
  if (fit === "stretch") return { left: 0, top: 0, wide: columns, high: rows };
  const scale = (fit === "contain" ? Math.min : Math.max)(columns / width, rows / height);
  const wide = width * scale, high = height * scale;
  return { left: (columns - wide) / 2, top: (rows - high) / 2, wide, high };
}

// ---- the CPU ----------------------------------------------------------------------------------------------------------

/** The weights of source pixels for each pixel along an axis: [first, weight, weight ...], or null outside of the picture. */
function tapsOf(count, start, extent, size) {
  const scale = size / extent;
  return Array.from({ length: count }, (_, at) => {
    const centre = (at + 0.5 - start) * scale;
    if (centre < 0 || centre > size) return null;
    const half = Math.max(scale, 1) / 2, from = centre - half, to = centre + half;
    const taps = new Map();
    for (let each = Math.floor(from); each < to; each++) { // growing: a box as wide as a pixel interpolates
      const weight = Math.min(each + 1, to) - Math.max(each, from), pixel = Math.min(Math.max(each, 0), size - 1);
      if (weight > 0) taps.set(pixel, (taps.get(pixel) ?? 0) + weight / (to - from));
    }
    return [...taps];
  });
}

/** A picture's elements from its pixels (RGBA, a byte each). */
export function elements(pixels, picture, plan) {
  const { width, height, mean, std, pad, order } = picture, { channels, rows, columns, isPlanar } = plan;
  const box = boxOf(picture, plan), size = rows * columns;
  const across = tapsOf(columns, box.left, box.wide, width), down = tapsOf(rows, box.top, box.high, height);
  const made = new Float32Array(channels * size);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      const sums = [0, 0, 0], inside = down[row] && across[column];
      if (inside)
        for (const [y, high] of down[row])
          for (const [x, wide] of across[column])
            for (let c = 0; c < 3; c++) sums[c] += high * wide * pixels[4 * (y * width + x) + c] / 255;
      const colours = order === "rgb" ? sums : sums.reverse();
      const grey = 0.299 * sums[order === "rgb" ? 0 : 2] + 0.587 * sums[1] + 0.114 * sums[order === "rgb" ? 2 : 0];
      for (let c = 0; c < channels; c++) {
        const value = inside ? ((channels === 1 ? grey : colours[c]) - mean[c]) / std[c] : pad;
        made[isPlanar ? c * size + row * columns + column : (row * columns + column) * channels + c] = value;
      }
    }
  return made;
}

/** The pixels of a picture, in sRGB and not multiplied by alpha; by a canvas unless they are that already. */
export function pixelsOf({ image, width, height }) {
  const isData = is(image, "ImageData");
  if (isData && (image.colorSpace ?? "srgb") === "srgb" && image.data instanceof Uint8ClampedArray) return image.data;
  const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  if (isData) pen.putImageData(image, 0, 0);
  else pen.drawImage(image, 0, 0, width, height);
  return pen.getImageData(0, 0, width, height).data;
}

// ---- the GPU ----------------------------------------------------------------------------------------------------------

const CODE = /* wgsl */ `
struct Plan { rows: u32, columns: u32, channels: u32, planar: u32, swapped: u32, pad: f32, start: vec2f, scale: vec2f,
              mean: vec4f, deviation: vec4f }
@group(0) @binding(0) var picture: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> made: array<f32>;
@group(0) @binding(2) var<uniform> plan: Plan;

@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= plan.columns || id.y >= plan.rows) { return; }
  let size = vec2f(textureDimensions(picture));
  let centre = (vec2f(id.xy) + 0.5 - plan.start) * plan.scale;
  let inside = all(centre >= vec2f(0.0)) && all(centre <= size);
  var sum = vec3f(0.0);
  if (inside) {
    let from_ = centre - max(plan.scale, vec2f(1.0)) * 0.5;
    let to = centre + max(plan.scale, vec2f(1.0)) * 0.5;
    for (var y = i32(floor(from_.y)); f32(y) < to.y; y++) {
      let high = max(min(f32(y) + 1.0, to.y) - max(f32(y), from_.y), 0.0);
      for (var x = i32(floor(from_.x)); f32(x) < to.x; x++) {
        let wide = max(min(f32(x) + 1.0, to.x) - max(f32(x), from_.x), 0.0);
        let at = clamp(vec2i(x, y), vec2i(0), vec2i(size) - 1);
        sum += high * wide * textureLoad(picture, at, 0).rgb;
      }
    }
    sum /= (to.x - from_.x) * (to.y - from_.y);
  }
  let grey = dot(sum, vec3f(0.299, 0.587, 0.114));
  let colours = select(sum, sum.bgr, plan.swapped != 0u);
  for (var c = 0u; c < plan.channels; c++) {
    let colour = select(colours[c], grey, plan.channels == 1u);
    let value = select(plan.pad, (colour - plan.mean[c]) / plan.deviation[c], inside);
    let pixel = id.y * plan.columns + id.x;
    made[select(pixel * plan.channels + c, c * plan.rows * plan.columns + pixel, plan.planar != 0u)] = value;
  }
}`;

/** Turns pictures into elements in a buffer of the GPU. */
export class Pictures {
  #gpu;
  #pipeline;
  #kept = new Map(); // texture, buffers and bindings, by sizes

  constructor(gpu) { this.#gpu = gpu; }

  #room(width, height, elements) {
    const { device } = this.#gpu, key = `${width} ${height} ${elements}`;
    this.#pipeline ??= device.createComputePipeline({ layout: "auto", compute: { module: device.createShaderModule({ code: CODE }) } });
    if (this.#kept.has(key)) return this.#kept.get(key);
    if (this.#kept.size === 4) this.close(); // pictures of ever new sizes
    const usage = 4 | 2 | 16; // TEXTURE_BINDING, COPY_DST, RENDER_ATTACHMENT
    const texture = device.createTexture({ size: [width, height], format: "rgba8unorm", usage });
    const made = device.createBuffer({ size: 4 * elements, usage: 0x80 | 4 }); // STORAGE, COPY_SRC
    const plan = device.createBuffer({ size: 80, usage: 0x40 | 8 }); // UNIFORM, COPY_DST
    const entries = [texture.createView(), { buffer: made }, { buffer: plan }].map((resource, binding) => ({ binding, resource }));
    const group = device.createBindGroup({ layout: this.#pipeline.getBindGroupLayout(0), entries });
    const room = { texture, made, plan, group };
    this.#kept.set(key, room);
    return room;
  }

  /** Writes a picture's elements to a buffer. */
  write(picture, plan, buffer, offset) {
    const { device } = this.#gpu, { width, height } = picture, { rows, columns, channels, dims } = plan;
    const count = dims.reduce((a, b) => a * b, 1);
    const room = this.#room(width, height, count), box = boxOf(picture, plan);
    const words = new ArrayBuffer(80), whole = new Uint32Array(words), real = new Float32Array(words);
    whole.set([rows, columns, channels, Number(plan.isPlanar), Number(picture.order === "bgr")]);
    real.set([picture.pad, box.left, box.top, width / box.wide, height / box.high], 5);
    real.set(picture.mean, 12);
    real.set(picture.std, 16);
    this.#gpu.submit();
    this.#show(picture, room.texture);
    device.queue.writeBuffer(room.plan, 0, words);
    this.#gpu.add((encoder) => {
      const pass = encoder.beginComputePass();
      pass.setPipeline(this.#pipeline);
      pass.setBindGroup(0, room.group);
      pass.dispatchWorkgroups(Math.ceil(columns / 8), Math.ceil(rows / 8));
      pass.end();
      encoder.copyBufferToBuffer(room.made, 0, buffer, offset, 4 * count);
    });
  }

  /** Copies pixels to a texture. A GPU that cannot take frames of a video gets them by a canvas. */
  #show({ image, width, height }, texture) {
    const copy = (source) => this.#gpu.device.queue.copyExternalImageToTexture({ source }, { texture }, [width, height]);
    try {
      copy(image);
    } catch (error) {
      if (error.name !== "OperationError" || !(is(image, "VideoFrame") || is(image, "HTMLVideoElement"))) throw error;
      const canvas = new OffscreenCanvas(width, height);
      canvas.getContext("2d").drawImage(image, 0, 0, width, height);
      copy(canvas);
    }
  }

  close() {
    this.#gpu.submit();
    for (const { texture, made, plan } of this.#kept.values()) [texture, made, plan].forEach((each) => each.destroy());
    this.#kept.clear();
  }
}
