// A network learns to read digits in the page: from UCI's digits, and from those that one draws and names.
import { draws, image, show, softmax, wipe } from "./board.js";
import { accuracy, divided, epoch, guess } from "./learn.js";
import { load } from "./trainer/index.js";

const byId = (id) => document.getElementById(id);
const pause = () => new Promise((resolve) => setTimeout(resolve));
const say = (text) => { byId("state").textContent = text; };

function answer(trainer) {
  const counts = image();
  show(counts && softmax(guess(trainer, counts)));
}

async function train(trainer, rows, held) {
  byId("train").disabled = true;
  const epochs = Number(byId("epochs").value);
  for (let done = 1; done <= epochs; done++) {
    let sum = 0, steps = 0;
    for (const loss of epoch(trainer, rows)) {
      sum += loss;
      steps++;
      await pause(); // the page stays responsive
    }
    const right = accuracy(trainer, held);
    byId("accuracy").value = (100 * right).toFixed(1);
    say(`epoch ${done} of ${epochs}: loss ${(sum / steps).toFixed(3)}, ${trainer.steps} steps`);
    answer(trainer);
  }
  byId("train").disabled = false;
}

/** The drawing becomes rows to train on, and the network makes a few steps on it at once. */
function teach(trainer, rows, label) {
  const counts = image();
  if (!counts) return;
  const own = Array.from({ length: 6 }, () => ({ image: counts, label }));
  rows.push(...own);
  for (let i = 0; i < 3; i++)
    for (const loss of epoch(trainer, own)) say(`taught a ${label}: loss ${loss.toFixed(3)}, ${trainer.steps} steps`);
  answer(trainer);
}

function keep(trainer) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([trainer.save()]));
  link.download = "digits.safetensors";
  link.click();
  URL.revokeObjectURL(link.href);
}

try {
  const trainer = await load();
  const answered = await fetch("digits.json");
  if (!answered.ok) throw new Error(`digits.json cannot be read: ${answered.status}`);
  const { train: rows, held } = divided(await answered.json());
  byId("accuracy").value = (100 * accuracy(trainer, held)).toFixed(1);
  show(null);
  draws(() => answer(trainer));
  byId("clear").addEventListener("click", () => { wipe(); show(null); });
  byId("train").addEventListener("click", () => train(trainer, rows, held).catch((error) => say(error.message)));
  byId("save").addEventListener("click", () => keep(trainer));
  byId("labels").append(...Array.from({ length: 10 }, (_, label) => {
    const button = document.createElement("button");
    button.textContent = label;
    button.addEventListener("click", () => teach(trainer, rows, label));
    return button;
  }));
  say("ready");
} catch (error) {
  say(`the training cannot be loaded: ${error.message}`);
}
