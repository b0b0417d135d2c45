// Runs a segmentation network on each frame of a video, and greys what is behind the person. A frame goes to the GPU as it is.
import { called, failed, ready, shown, stopped } from "./loading.js";
import { load } from "./segmenter/index.js";

const byId = (id) => document.getElementById(id);
const canvas = byId("view"), pen = canvas.getContext("2d"), video = byId("video");
const SECONDS = 1; // frames a second are counted over

/** The mask as a layer that hides the background. mask: probabilities of a person, [1, 1, height, width]. */
function layer({ data, dims: [, , height, width] }) {
  const image = new ImageData(width, height);
  for (let at = 0; at < data.length; at++) image.data[4 * at + 3] = 255 * data[at];
  const small = new OffscreenCanvas(width, height);
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

/** A picture in grey, and in colours where the mask is. */
function draw(picture, mask) {
  const { width, height } = canvas;
  pen.globalCompositeOperation = "copy";
  pen.drawImage(layer(mask), 0, 0, width, height);
  pen.globalCompositeOperation = "source-in";
  pen.drawImage(picture, 0, 0, width, height);
  pen.globalCompositeOperation = "destination-over";
  pen.filter = "grayscale(1) brightness(0.6)";
  pen.drawImage(picture, 0, 0, width, height);
  pen.filter = "none";
  pen.globalCompositeOperation = "source-over";
}

/** Resolves at the next frame of the video. */
const frame = () => new Promise((resolve) => { video.requestVideoFrameCallback(resolve); });

async function follow(model) {
  for (let since = performance.now(), frames = 0, count = 0; ;) {
    await frame();
    const picture = await createImageBitmap(video); // the video goes on meanwhile
    try {
      const { mask } = await called(model, { image: picture });
      draw(picture, mask);
      canvas.dataset.frames = ++count;
      frames++;
    } finally {
      picture.close();
    }
    const now = performance.now();
    if (now - since < 1000 * SECONDS) continue;
    byId("rate").value = `${(frames * 1000 / (now - since)).toFixed(1)} frames a second`;
    [since, frames] = [now, 0];
  }
}

/** Plays a file or the camera's stream. */
async function play(source) {
  try {
    [video.srcObject, video.src] = source instanceof MediaStream ? [source, ""] : [null, URL.createObjectURL(source)];
    await video.play();
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  } catch (error) {
    byId("state").textContent = `${source.name ?? "the camera"} cannot be played: ${error.message}`;
  }
}

try {
  const model = await load(undefined, shown());
  byId("file").addEventListener("change", ({ target }) => { if (target.files[0]) play(target.files[0]); });
  byId("camera").addEventListener("click", async () => {
    try {
      play(await navigator.mediaDevices.getUserMedia({ video: true }));
    } catch (error) {
      byId("state").textContent = `there is no camera: ${error.message}`;
    }
  });
  ready(model);
  follow(model).catch(stopped);
} catch (error) {
  failed(error);
}
