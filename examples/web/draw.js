// Strokes on a canvas become the 8 x 8 image that the digits network was trained on; its answer is shown as bars.
import { draws, image, show, softmax, wipe } from "./board.js";
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
  const number = ++latest, began = performance.now(), { logits } = await model.run({ image: counts });
  if (number !== latest) return;
  byId("time").textContent = `${((performance.now() - began) * 1000).toFixed(0)} µs`;
  show(softmax(logits.data));
}

try {
  const model = await load(undefined, { progress: (loaded, total) => { byId("progress").value = loaded / total; } });
  clear();
  draws(() => answer(model));
  byId("clear").addEventListener("click", clear);
  byId("progress").hidden = true;
  byId("state").textContent = model.backend === "webgpu" ? "ready, on the GPU" : "ready";
} catch (error) {
  byId("state").textContent = `the model cannot be loaded: ${error.message}`;
}
