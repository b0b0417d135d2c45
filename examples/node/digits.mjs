// Which digit is it? `node digits.mjs`, once README.md's commands have made digits.node.
import { Model } from "./model.mjs";

// A seven, as the data set has it: 0 to 16 for each square.
const image = new Float32Array([
  0, 0, 2, 13, 16, 9, 0, 0,
  0, 0, 12, 12, 7, 16, 3, 0,
  0, 1, 14, 3, 0, 16, 4, 0,
  0, 0, 0, 4, 10, 16, 6, 0,
  0, 0, 0, 13, 16, 16, 9, 0,
  0, 0, 0, 5, 13, 1, 0, 0,
  0, 0, 0, 11, 9, 0, 0, 0,
  0, 0, 1, 16, 4, 0, 0, 0,
]);
const model = new Model("digits.node");
const { logits } = await model.run({ image });
console.log(`it is a ${logits.data.indexOf(Math.max(...logits.data))}`);
