// The pages' calls of a model, and their texts about it: how far its loading is, where it runs, and how long a call took.
const byId = (id) => document.getElementById(id);

/** The options of `load` that show the bytes read and the kernels compiled, which go on at the same time. The package for CPUs has
 * other bytes and no kernels. */
export function shown() {
  const parts = new Map();
  const show = (name, done, total, text) => {
    parts.set(name, { done: done / total, text });
    byId("progress").value = Math.min(...Array.from(parts.values(), (part) => part.done));
    byId("state").textContent = `loading: ${Array.from(parts.values(), (part) => part.text).join(", ")}`;
  };
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  return {
    progress: (loaded, total) => show("bytes", loaded, total, `${megabytes(loaded)} of ${megabytes(total)} MB`),
    compiled: (done, total) => show("kernels", done, total, `${done} of ${total} kernels`),
    announce: (reason) => {
      console.warn(reason.message);
      parts.clear();
    },
  };
}

/** Ends the loading: the text says where the model runs, and what it waits for. Buttons and inputs can be used from now on. */
export function ready(model, hint) {
  const reason = model.reason ? `, on the CPU (${model.reason.message})` : "";
  byId("state").textContent = `ready${model.backend === "webgpu" ? ", on the GPU" : reason}${hint ? `: ${hint}` : ""}`;
  byId("progress").hidden = true;
  for (const control of document.querySelectorAll("[disabled]")) control.disabled = false;
}

export function failed(error) {
  byId("state").textContent = `the model cannot be loaded: ${error.message}`;
  byId("progress").hidden = true;
}

/** A call's outputs. A model whose device is lost starts again with a new one, and is called again. */
export async function called(model, inputs) {
  try {
    return await model.run(inputs);
  } catch (error) {
    if (error.name !== "DeviceLostError") throw error;
    await model.reload();
    byId("state").textContent = "on the GPU, with a new device";
    return model.run(inputs);
  }
}

/** The text about an error of a call. */
export function stopped(error) {
  byId("state").textContent = `the model cannot be called: ${error.message}`;
}

/** Milliseconds as a text with two or three digits. */
export function duration(milliseconds) {
  if (milliseconds < 1) return `${(1000 * milliseconds).toFixed(0)} µs`;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}
