// Strokes on a canvas become the 8 x 8 image that the digits network was trained on; its answer is shown as bars.
import { draws, image, show, softmax, wipe } from "./board.js";
import { called, duration, failed, ready, shown, stopped } from "./loading.js";
import { load } from "./model/index.js";

const byId = (id) => document.getElementById(id);

let latest = 0; // of the answers that were asked for

function clear() {
  latest++;
  wipe();
  byId("time").textContent = "";
  show(null);
}

/** A package for WebGPU answers later than one for CPUs: by then another answer may be wanted, or none. */
async function answer(model) {
  const counts = image();
  if (!counts) return;
  const number = ++latest, began = performance.now(), { logits } = await called(model, { image: counts });
  if (number !== latest) return;
  byId("time").textContent = duration(performance.now() - began);
  show(softmax(logits.data));
}

try {
  const model = await load(undefined, shown());
  clear();
  draws(() => answer(model).catch(stopped));
  byId("clear").addEventListener("click", clear);
  ready(model);
} catch (error) {
  failed(error);
}
