// Digits to train on: rows with labels, their order, and shifted copies of them. They need no page and also run in Node.
const SIDE = 8, PIXELS = SIDE * SIDE, BATCH = 18, TRAINED = 260;

/** Rows of digits.json: 260 to train on, and the others to measure the network on. */
export function divided({ images, labels }) {
  const made = { train: [], held: [] };
  images.forEach((image, i) => made[i < TRAINED ? "train" : "held"].push({ image: Float32Array.from(image), label: labels[i] }));
  return made;
}

/** An image turned by up to 10 degrees, scaled by up to a tenth, sheared and moved a little: another hand's. */
function varied(image, random) {
  const made = new Float32Array(PIXELS), middle = (SIDE - 1) / 2;
  const by = (most) => (2 * random() - 1) * most;
  const angle = by(0.18), size = 1 + by(0.1), shear = by(0.15), right = by(0.6), down = by(0.6);
  const cos = Math.cos(angle) * size, sin = Math.sin(angle) * size;
  const at = (x, y) => (x >= 0 && x < SIDE && y >= 0 && y < SIDE ? image[y * SIDE + x] : 0);
  for (let row = 0; row < SIDE; row++)
    for (let column = 0; column < SIDE; column++) {
      const dx = column - middle, dy = row - middle;
      const x = cos * dx + (shear - sin) * dy + middle + right, y = sin * dx + cos * dy + middle + down;
      const x0 = Math.floor(x), y0 = Math.floor(y), fx = x - x0, fy = y - y0;
      made[row * SIDE + column] = (1 - fy) * ((1 - fx) * at(x0, y0) + fx * at(x0 + 1, y0))
        + fy * ((1 - fx) * at(x0, y0 + 1) + fx * at(x0 + 1, y0 + 1));
    }
  return made;
}

function batch(rows) {
  const image = new Float32Array(rows.length * PIXELS);
  rows.forEach((row, i) => image.set(row.image, i * PIXELS));
  return { image, label: BigInt64Array.from(rows, (row) => BigInt(row.label)) };
}

/** One epoch: a step for every batch of the rows in a random order, each varied a little. Yields the loss of each. */
export function* epoch(trainer, rows, random = Math.random) {
  const order = rows.map((row) => [random(), row]).sort((a, b) => a[0] - b[0]).map(([, row]) => row);
  for (let at = 0; at < order.length; at += BATCH)
    yield trainer.step(batch(order.slice(at, at + BATCH).map(({ image, label }) => ({ image: varied(image, random), label })))).loss;
}

/** The logits of one image. */
export const guess = (trainer, image) => trainer.predict({ image }).output.data;

/** The share of rows that the network reads as their labels say. */
export function accuracy(trainer, rows) {
  const { data } = trainer.predict({ image: batch(rows).image }).output;
  const right = rows.filter(({ label }, i) => {
    const row = data.subarray(10 * i, 10 * i + 10);
    return row.indexOf(Math.max(...row)) === label;
  });
  return right.length / rows.length;
}
