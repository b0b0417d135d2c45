// A thread of the model, in a worker of its own: see index.js.
import { thread } from "./index.js";

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = ({ data }) => thread(data, () => self.postMessage("ready"));
} else { // Node
  const { parentPort, workerData } = await import("node:worker_threads");
  await thread(workerData, () => parentPort.postMessage("ready"));
}
