// Resizes a picture to ultraface's input of 320 x 240, and draws its scores for 4,420 anchors as boxes on the picture.
import { called, duration, failed, ready, shown } from "./loading.js";
import { load } from "./ultraface/index.js";

const byId = (id) => document.getElementById(id);
const canvas = byId("picture"), pen = canvas.getContext("2d");
const WIDTH = 320, HEIGHT = 240, SAME = 0.3; // of two boxes that share more than this of their union, the surer one stays
const LARGEST = 1280; // the picture on the page is no larger, whatever a camera made

const small = new OffscreenCanvas(WIDTH, HEIGHT).getContext("2d", { willReadFrequently: true });
small.imageSmoothingQuality = "high";

/** Where a picture lies in the model's input: as large as fits, in the middle. */
function placed({ width, height }) {
  const scale = Math.min(WIDTH / width, HEIGHT / height);
  return { scale, left: (WIDTH - width * scale) / 2, top: (HEIGHT - height * scale) / 2 };
}

/** The model's input: planes of red, green and blue, about -1 to 1; grey, which is 0, beside the picture. */
function input(picture) {
  const { scale, left, top } = placed(picture);
  small.fillStyle = "rgb(127 127 127)";
  small.fillRect(0, 0, WIDTH, HEIGHT);
  small.drawImage(picture, left, top, picture.width * scale, picture.height * scale);
  const pixels = small.getImageData(0, 0, WIDTH, HEIGHT).data, size = WIDTH * HEIGHT;
  const planes = new Float32Array(3 * size);
  for (let at = 0; at < size; at++)
    for (let plane = 0; plane < 3; plane++) planes[plane * size + at] = (pixels[4 * at + plane] - 127) / 128;
  return planes;
}

const area = ({ left, top, right, bottom }) => Math.max(0, right - left) * Math.max(0, bottom - top);

/** The part of two boxes' union that both have. */
function shared(a, b) {
  const both = area({
    left: Math.max(a.left, b.left), top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom),
  });
  return both / (area(a) + area(b) - both);
}

/** Boxes in the picture's pixels, surest first, each face once. scores: nothing and face; boxes: two corners, 0 to 1. */
function faces(picture, scores, boxes, least) {
  const { scale, left, top } = placed(picture), found = [];
  const x = (value) => Math.min(picture.width, Math.max(0, (value * WIDTH - left) / scale));
  const y = (value) => Math.min(picture.height, Math.max(0, (value * HEIGHT - top) / scale));
  for (let at = 0; at < scores.length / 2; at++) {
    const score = scores[2 * at + 1];
    if (score < least) continue;
    const [x0, y0, x1, y1] = boxes.subarray(4 * at, 4 * at + 4);
    found.push({ score, left: x(x0), top: y(y0), right: x(x1), bottom: y(y1) });
  }
  found.sort((a, b) => b.score - a.score);
  return found.reduce((kept, box) => (kept.some((k) => shared(k, box) > SAME) ? kept : [...kept, box]), []);
}

function draw(picture, found) {
  pen.drawImage(picture, 0, 0);
  const unit = canvas.width / canvas.clientWidth; // of the picture's pixels: one of the page's
  Object.assign(pen, { lineWidth: 2.5 * unit, font: `600 ${13 * unit}px system-ui, sans-serif`, textBaseline: "middle" });
  for (const { score, left, top, right, bottom } of found) {
    const text = `${(100 * score).toFixed(0)} %`, height = 20 * unit, width = pen.measureText(text).width + 12 * unit;
    const above = top >= height ? top - height : top;
    pen.strokeStyle = pen.fillStyle = "#2a6fdb";
    pen.strokeRect(left, top, right - left, bottom - top);
    pen.fillRect(left - 1.25 * unit, above, width, height);
    pen.fillStyle = "#fff";
    pen.fillText(text, left + 4.75 * unit, above + height / 2);
  }
}

/** Calls `show` with each picture that is picked or dropped. */
function listen(show) {
  byId("file").addEventListener("change", ({ target }) => { if (target.files[0]) show(target.files[0]); });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) show(event.dataTransfer.files[0]);
  });
}

/** A picture as it is looked at: turned as the camera was held, and not too large. */
async function read(blob) {
  const whole = await createImageBitmap(blob);
  const scale = Math.min(1, LARGEST / Math.max(whole.width, whole.height));
  const resizeWidth = Math.max(1, Math.round(whole.width * scale)), resizeHeight = Math.max(1, Math.round(whole.height * scale));
  return createImageBitmap(whole, { resizeWidth, resizeHeight, resizeQuality: "high" });
}

/** The page's work: the model is asked once for each picture, boxes are chosen again whenever the slider moves. */
function page(model) {
  let picture, answer, time;
  const choose = () => {
    byId("percent").value = `${(100 * byId("least").value).toFixed(0)} %`;
    if (!picture) return;
    const found = faces(picture, answer.scores.data, answer.boxes.data, Number(byId("least").value));
    draw(picture, found);
    canvas.dataset.faces = JSON.stringify(found);
    const count = found.length === 1 ? "one face" : `${found.length || "no"} faces`;
    byId("state").textContent = `${count}, ${duration(time)}`;
  };
  byId("least").addEventListener("input", choose);
  addEventListener("resize", choose);
  return async (blob, name) => {
    try {
      const next = await read(blob);
      const planes = input(next), began = performance.now();
      answer = await called(model, { input: planes });
      time = performance.now() - began;
      picture = next;
      [canvas.width, canvas.height] = [picture.width, picture.height];
      choose();
    } catch (error) {
      byId("state").textContent = `${blob.name ?? name} cannot be shown: ${error.message}`;
    }
  };
}

try {
  const model = await load(undefined, shown());
  const show = page(model);
  listen(show);
  ready(model, "choose a picture");
} catch (error) {
  failed(error);
}
