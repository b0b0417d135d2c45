// The canvas that one draws digits on, and the drawing as the 8 x 8 image of UCI's digits.
const board = document.getElementById("board"), pen = board.getContext("2d", { willReadFrequently: true });
const CELLS = 32, SIDE = 8; // UCI's digits: a bitmap of 32 x 32, whose squares of 4 x 4 are counted

/** The drawing as the data set has it: what is drawn fills the height or the width, in the middle; 0 to 16 for each square. */
export function image() {
  const { width, height } = board, pixels = pen.getImageData(0, 0, width, height).data;
  let left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (pixels[4 * (y * width + x) + 3] > 127) {
        left = Math.min(left, x), right = Math.max(right, x);
        top = Math.min(top, y), bottom = Math.max(bottom, y);
      }
  if (right < 0) return null;
  const size = Math.max(right - left, bottom - top) + 1, step = size / CELLS;
  const x0 = (left + right + 1 - size) / 2, y0 = (top + bottom + 1 - size) / 2;
  const counts = new Float32Array(SIDE * SIDE);
  for (let row = 0; row < CELLS; row++)
    for (let column = 0; column < CELLS; column++) {
      const x = Math.floor(x0 + (column + 0.5) * step), y = Math.floor(y0 + (row + 0.5) * step);
      const inside = x >= 0 && x < width && y >= 0 && y < height;
      if (inside && pixels[4 * (y * width + x) + 3] > 127) counts[(row >> 2) * SIDE + (column >> 2)]++;
    }
  return counts;
}

/** Removes the drawing. */
export function wipe() {
  pen.clearRect(0, 0, board.width, board.height);
}

/** From now on the pointer draws; `changed` is called after every stroke of it, and while it moves. */
export function draws(changed) {
  let drawing = false;
  const position = (event) => {
    const box = board.getBoundingClientRect();
    return [(event.clientX - box.left) * board.width / box.width, (event.clientY - box.top) * board.height / box.height];
  };
  Object.assign(pen, { lineWidth: 30, lineCap: "round", lineJoin: "round", strokeStyle: "#000" });
  board.addEventListener("pointerdown", (event) => {
    drawing = true;
    board.setPointerCapture(event.pointerId);
    pen.beginPath();
    pen.moveTo(...position(event));
    pen.lineTo(...position(event));
    pen.stroke();
  });
  board.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    pen.lineTo(...position(event));
    pen.stroke();
    changed();
  });
  for (const end of ["pointerup", "pointercancel"])
    board.addEventListener(end, () => {
      if (drawing) changed();
      drawing = false;
    });
}

export function softmax(values) {
  const most = Math.max(...values), powers = Array.from(values, (v) => Math.exp(v - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((p) => p / sum);
}

/** Shows the shares of the ten digits as bars, and the digit with the largest; null: there is no drawing. */
export function show(shares) {
  const best = shares ? shares.indexOf(Math.max(...shares)) : -1;
  document.getElementById("digit").value = best < 0 ? "?" : best;
  document.getElementById("bars").replaceChildren(...Array.from({ length: 10 }, (_, digit) => {
    const share = shares?.[digit] ?? 0, item = document.createElement("li");
    item.innerHTML = `<div class="track"><div class="bar" style="width: ${(share * 75).toFixed(1)}%"></div>` +
      `<span class="share">${(share * 100).toFixed(1)} %</span></div>`;
    return item;
  }));
}
