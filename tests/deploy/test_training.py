"""Compiled trainings: the bits of Python's steps, checkpoints that both read, and errors by name."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import data, nn, optim
from burn.deploy import trainers, training
from burn.deploy.interface import Interface
from burn.deploy.train_interface import Rows, TrainInterface, rows_of
from burn.dialect.weights import Weight
from burn.errors import CompileError, TypeMismatch
from burn.importers.weights import safetensors
from burn.jitted import Jit
from burn.runtime.artefact import Signature, ValueSpec
from burn.train import checkpoints
from burn.train.step import Step
from tests.deploy.making import Array, Failed, Tensor, options
from tests.deploy.training import CASES, Batch, Classifier, Trainer, classify, made

pytestmark = pytest.mark.untuned  # results have the bits of `burn.load`, and deployed programs are not tuned

SIZES = (16, 16, 7, 16, 4)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the classifier's static library, from seed 0."""
    burn.manual_seed(0)
    case = CASES["classifier"]
    return made(case.make(), case.inputs, tmp_path_factory.mktemp("training") / "net", "static").parent


@pytest.fixture(scope="module")
def compiled(static: Path) -> Path:
    """The same as a shared library."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler")
    whole = ["-Wl,--whole-archive", "libnet.a", "-Wl,--no-whole-archive", "-lpthread", "-lm"]
    subprocess.run([compiler, "-shared", "-o", "libnet.so", *whole], cwd=static, check=True)
    return static / "libnet.so"


@pytest.fixture
def trainer(compiled: Path) -> Trainer:
    return Trainer(compiled)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Step, Path]:
    """The same step in Python, compiled once, and its checkpoint before the first step."""
    burn.manual_seed(0)
    step, path = CASES["classifier"].make(), tmp_path_factory.mktemp("begun") / "step.safetensors"
    step.save(path)
    return step, path


@pytest.fixture
def step(begun: tuple[Step, Path]) -> Step:
    """The step from its beginning."""
    begun[0].load(begun[1])
    return begun[0]


def _batches(name: str, sizes: tuple[int, ...] = SIZES) -> list[Batch]:
    rng = np.random.default_rng(1)
    return [CASES[name].batch(rng, size) for size in sizes]


def _state(path: Path) -> dict[str, Array]:
    return {name: weight.array() for name, weight in checkpoints.read(path).tensors.items()}


def _same_files(a: Path, b: Path) -> None:
    ours, theirs = _state(a), _state(b)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        np.testing.assert_array_equal(array, theirs[name], name)
    assert checkpoints.read(a).facts == checkpoints.read(b).facts


def _compare(step: Step, trainer: Trainer, name: str, folder: Path) -> None:
    for batch in _batches(name):
        assert trainer.step(batch) == float(step(*batch.values()))
    step.save(folder / "python.safetensors")
    trainer.save(folder / "binary.safetensors")
    _same_files(folder / "python.safetensors", folder / "binary.safetensors")
    assert trainer.steps == len(SIZES)
    batch = _batches(name)[2]
    first = next(iter(batch))
    if name != "recurrent":
        inference = Jit(step.model.eval(), {first: {0: "batch"}}, (), opens=True)
        np.testing.assert_array_equal(trainer.call("predict", batch)["output"], np.asarray(inference(batch[first])))
        step.model.train()


def test_the_bits_of_pythons_steps(step: Step, trainer: Trainer, tmp_path: Path) -> None:
    """With running statistics, dropout, clipping and a schedule; batches of several sizes, the last ones smaller."""
    _compare(step, trainer, "classifier", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolutional", "decoder", "recurrent"])
def test_the_bits_of_other_models(name: str, tmp_path: Path) -> None:
    burn.manual_seed(3)
    step = CASES[name].make()
    _compare(step, Trainer(made(step, CASES[name].inputs, tmp_path / "net")), name, tmp_path)


def test_checkpoints_go_both_ways(step: Step, trainer: Trainer, compiled: Path, tmp_path: Path) -> None:
    """From a checkpoint of either one, both make the steps that would have followed."""
    first, second = _batches("classifier"), _batches("classifier", (5, 5, 9))
    for batch in first:
        trainer.step(batch)
    trainer.save(tmp_path / "a.safetensors")
    wanted = [trainer.step(batch) for batch in second]
    step.load(tmp_path / "a.safetensors")
    assert [float(step(*batch.values())) for batch in second] == wanted
    step.load(tmp_path / "a.safetensors")
    step.save(tmp_path / "b.safetensors")
    _same_files(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    other = Trainer(compiled)
    other.load(tmp_path / "b.safetensors")
    assert [other.step(batch) for batch in second] == wanted


@pytest.mark.slow
def test_a_learners_checkpoints(trainer: Trainer, tmp_path: Path) -> None:
    burn.manual_seed(0)
    model = Classifier()
    rows = _batches("classifier", (40,))[0]
    loader = data.Loader((rows["x"], rows["y"]), 8)

    def learner(folder: Path) -> burn.train.Learner:
        adam = optim.AdamW(model, lr=optim.cosine(0.01, 40, warmup=3))
        return burn.train.Learner(model, classify, adam, clip_norm=1.0, folder=folder, progress=False)

    learner(tmp_path / "run").fit(loader, epochs=1)
    last = checkpoints.newest(tmp_path / "run")
    assert last is not None
    trainer.load(last)
    assert trainer.steps == 5
    wanted = [trainer.step({"x": rows["x"][i : i + 8], "y": rows["y"][i : i + 8]}) for i in range(0, 40, 8)]
    trainer.save(tmp_path / "c.safetensors")
    resumed = learner(tmp_path / "other")
    resumed.fit(data.Loader((rows["x"], rows["y"]), 8), epochs=2, resume=last)
    state = {f"model.{path}": array for path, array in model.state_dict().items()}
    saved = _state(tmp_path / "c.safetensors")
    for name, array in state.items():
        np.testing.assert_array_equal(array, saved[name], name)
    assert len(set(wanted)) == 5


def test_a_checkpoint_of_another_training_changes_nothing(trainer: Trainer, tmp_path: Path) -> None:
    batch = _batches("classifier")[0]
    trainer.save(tmp_path / "before.safetensors")
    file = (tmp_path / "before.safetensors").read_bytes()

    def fails(content: bytes, message: str) -> None:
        (tmp_path / "wrong.safetensors").write_bytes(content)
        with pytest.raises(Failed, match=message) as failure:
            trainer.load(tmp_path / "wrong.safetensors")
        assert failure.value.args[0] == 68

    for length in (0, 7, 100, len(file) - 1):
        fails(file[:length], "damaged")
    fails(file[:-3] + bytes([file[-3] ^ 1]) + file[-2:], "checksum of|damaged")
    at = file.index(b'\\"step\\"')
    fails(file[: at + 10] + b"7" + file[at + 11 :], "damaged")  # the content besides tensors
    saved = checkpoints.read(tmp_path / "before.safetensors")
    tensors, facts = dict(saved.tensors), {**saved.facts}
    less = {name: weight for name, weight in tensors.items() if name != "model.head.bias"}

    def written(tensors: object, facts: object) -> bytes:
        checkpoints.write(tmp_path / "w.safetensors", tensors, facts)  # type: ignore[arg-type]
        return (tmp_path / "w.safetensors").read_bytes()

    fails(written(less, facts), "'model.head.bias' is missing")
    fails(written({**tensors, "model.tail": tensors["model.head.bias"]}, facts), "there is no such tensor")
    fails(written({**tensors, "model.head.bias": tensors["model.norm.bias"]}, facts), r"is not float32\[3\]")
    fails(written(tensors, {**facts, "frozen": ["head.bias"]}), "other parameters are frozen")
    with pytest.raises(Failed, match="No such file"):
        trainer.load(tmp_path / "nowhere.safetensors")
    trainer.save(tmp_path / "after.safetensors")
    assert (tmp_path / "after.safetensors").read_bytes() == file
    assert np.isfinite(trainer.step(batch))


def _rewritten(path: Path, facts: dict[str, Any], tensors: dict[str, Weight] | None = None) -> Path:
    """The checkpoint with other facts and further tensors, and valid checksums; beside it."""
    saved, target = checkpoints.read(path), path.with_name("changed.safetensors")
    checkpoints.write(target, {**saved.tensors, **(tensors or {})}, {**saved.facts, **facts})
    return target


def test_the_position_of_a_checkpoint_is_that_of_its_steps(trainer: Trainer, tmp_path: Path) -> None:
    """A library keeps the position in data of the checkpoint that it loaded, until it makes a step."""
    path = tmp_path / "a.safetensors"
    trainer.save(path)
    position = {
        "epoch": 3,
        "batch": 2,
        "data": {"epoch": 2},
        "others": 1,
        "valid": 2,
        "history": [{}],
        "ends": [[1, 4]],
    }
    trainer.load(_rewritten(path, {**position, "step": 9, "trained": True}))
    trainer.save(path)
    assert {**checkpoints.read(path).facts, **position, "step": 9} == checkpoints.read(path).facts
    trainer.step(_batches("classifier")[0])
    trainer.save(path)
    facts = checkpoints.read(path).facts
    assert not facts.keys() & {"data", "others", "valid"}
    begun = {"epoch": 1, "batch": 0, "trained": False, "history": [], "ends": [], "step": 10}
    assert {**facts, **begun} == facts


@pytest.mark.parametrize("key", ["step", "epoch", "batch"])
@pytest.mark.parametrize("number", [-1, 2**62, 2**64, 1.5, None])
def test_numbers_of_steps_that_there_are_not(trainer: Trainer, tmp_path: Path, key: str, number: object) -> None:
    trainer.save(tmp_path / "a.safetensors")
    with pytest.raises(Failed, match="damaged"):
        trainer.load(_rewritten(tmp_path / "a.safetensors", {key: number}))


def test_counts_of_steps_that_differ(trainer: Trainer, tmp_path: Path) -> None:
    """This training counts the steps of all parameters as one; a file that counts some separately must have the same number."""
    path = tmp_path / "a.safetensors"
    trainer.step(_batches("classifier")[0])
    trainer.save(path)
    names = [f"optimizer.count.{name}" for name in ("features.weight", "head.bias", "head.weight")]
    for counts, same in (((1, 1, 1), True), ((0, 1, 1), False), ((1, 1, 0), False), ((0, 0, 0), False)):
        given = {name: checkpoints.weight(np.array(count, np.int64)) for name, count in zip(names, counts, strict=True)}
        changed = _rewritten(path, {}, given)  # type: ignore[arg-type]
        if same:
            trainer.load(changed)
        else:
            with pytest.raises(Failed, match=r"separately|counts both as one"):
                trainer.load(changed)


def test_metadata_of_other_programs(trainer: Trainer, tmp_path: Path) -> None:
    """Any number of keys, each once."""
    path = tmp_path / "a.safetensors"
    trainer.save(path)
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    texts = header["__metadata__"]
    texts |= {f"key {i}": "é" * i for i in range(100)}
    sums = json.loads(texts.pop(checkpoints.CHECKSUMS))
    sums[checkpoints.KEY] = checkpoints._texts(texts)
    texts[checkpoints.CHECKSUMS] = json.dumps(sums)

    def load(text: str) -> None:
        path.write_bytes(len(text.encode()).to_bytes(8, "little") + text.encode() + content[start:])
        trainer.load(path)

    load(json.dumps(header))
    assert checkpoints.read(path).facts["step"] == 0
    for key in (checkpoints.CHECKSUMS, checkpoints.KEY, "key 7"):
        twice = json.dumps(header).replace('"__metadata__": {', f'"__metadata__": {{{json.dumps(key)}: "{{}}", ')
        with pytest.raises(Failed, match="damaged"):
            load(twice)


def test_files_have_the_permissions_of_their_process(trainer: Trainer, tmp_path: Path) -> None:
    path, mask = tmp_path / "a.safetensors", os.umask(0o027)
    try:
        trainer.save(path)
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        trainer.save(path)
        assert path.stat().st_mode & 0o777 == 0o604
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: trainer.save(tmp_path / f"{i}.safetensors"), range(24)))
        assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o640, 0o604}
    finally:
        os.umask(mask)


def test_damage_anywhere_is_found(trainer: Trainer, tmp_path: Path) -> None:
    """A changed byte is an error or, in the header's padding and the like, of no effect; never a crash."""
    trainer.save(tmp_path / "a.safetensors")
    file = (tmp_path / "a.safetensors").read_bytes()
    start = 8 + int.from_bytes(file[:8], "little")
    rng = np.random.default_rng(int(os.environ.get("BURN_SWEEP_SEED", 0)))
    refused = 0
    cases = int(os.environ.get("BURN_SWEEP", 300))
    for _ in range(cases):
        at = int(rng.integers(len(file) if rng.random() < 0.3 else start))
        changed = bytearray(file)
        changed[at] = rng.integers(256)
        (tmp_path / "b.safetensors").write_bytes(changed)
        try:
            trainer.load(tmp_path / "b.safetensors")
        except Failed as failure:
            assert failure.args[0] == 68
            refused += 1
    assert refused > cases // 2
    trainer.load(tmp_path / "a.safetensors")
    trainer.save(tmp_path / "c.safetensors")
    assert (tmp_path / "c.safetensors").read_bytes() == file


def test_weights_alone(step: Step, trainer: Trainer, tmp_path: Path) -> None:
    dict(step.model.named_parameters())["head.bias"].assign(np.array([1, 2, 3], np.float32))
    step.model.save(tmp_path / "weights.safetensors")
    trainer.load(tmp_path / "weights.safetensors")
    batch = _batches("classifier")[0]
    assert trainer.step(batch) == float(step(*batch.values()))


def test_tensors_of_the_state(trainer: Trainer) -> None:
    bias = np.full(3, 0.5, np.float32)
    address = ctypes.c_void_p(bias.ctypes.data)
    trainer.check(trainer.function("write")(trainer.model, b"model.head.bias", address, ctypes.c_int64(12)))
    found = np.zeros(3, np.float32)
    there = ctypes.c_void_p(found.ctypes.data)
    trainer.check(trainer.function("read")(trainer.model, b"model.head.bias", there, ctypes.c_int64(12)))
    np.testing.assert_array_equal(found, bias)
    for name, size, message in ((b"model.head", 12, "no tensor"), (b"model.head.bias", 8, "12 bytes, not 8")):
        with pytest.raises(Failed, match=message):
            trainer.check(trainer.function("read")(trainer.model, name, there, ctypes.c_int64(size)))


def test_wrong_calls(trainer: Trainer) -> None:
    batch = _batches("classifier")[0]
    before = trainer.call("predict", batch)["output"]
    with pytest.raises(Failed, match="out of range") as failure:  # a label that there is not
        trainer.step({**batch, "y": batch["y"] + 100})
    assert failure.value.args[0] == 2
    with pytest.raises(Failed, match="negative"):
        trainer.check(trainer.function("step")(trainer.model, ctypes.c_int64(-1), *[None] * 3))
    with pytest.raises(Failed, match="'x' is a null pointer"):
        trainer.check(trainer.function("step")(trainer.model, ctypes.c_int64(4), *[None] * 3))
    with pytest.raises(Failed, match="null pointer"):
        trainer.check(trainer.function("step")(None, ctypes.c_int64(4), *[None] * 3))
    with pytest.raises(Failed, match="null pointer"):
        trainer.check(trainer.function("save")(trainer.model, None))
    with pytest.raises(Failed, match="No such file"):
        trainer.save(Path("/nowhere/there/a.safetensors"))
    assert trainer.steps == 0
    parameters = trainer.call("predict", batch)["output"]
    np.testing.assert_allclose(parameters, before, atol=0.5)  # running statistics may have moved


def test_steps_with_tensors(compiled: Path, tmp_path: Path) -> None:
    """The memory of an output may be an input's; where it is too small, the whole step was made."""
    batch = _batches("classifier")[0]
    plain, tensors = Trainer(compiled), Trainer(compiled)
    x, y = np.ascontiguousarray(batch["x"]).copy(), np.ascontiguousarray(batch["y"])

    def step(address: int | None, room: int) -> Tensor:
        inputs = (Tensor * 2)(Tensor.of(x, "float32"), Tensor.of(y, "int64"))
        outputs = (Tensor * 1)(Tensor(data=address, bytes=room))
        tensors.check(tensors.function("step_tensors")(tensors.model, inputs, outputs))
        return outputs[0]

    wanted = [plain.step(batch) for _ in range(3)]
    free = tensors.function("free")
    made = step(None, 0)
    assert ctypes.cast(made.data, ctypes.POINTER(ctypes.c_float))[0] == wanted[0]
    free(ctypes.byref(made))
    step(x.ctypes.data, 4)
    assert x.ravel()[0] == np.float32(wanted[1])
    x[:] = batch["x"]
    for number, room in enumerate((3, -1)):
        with pytest.raises(
            Failed, match=("takes 4 bytes, and was given memory of 3; the step was made", "negative")[number]
        ):
            step(x.ctypes.data, room)
        assert tensors.steps == 3
    np.testing.assert_array_equal(x, batch["x"])
    for trainer, name in ((plain, "a"), (tensors, "b")):
        trainer.function("seed")(trainer.model, ctypes.c_uint64(0))
        trainer.save(tmp_path / f"{name}.safetensors")
    _same_files(tmp_path / "a.safetensors", tmp_path / "b.safetensors")


def test_threads(compiled: Path) -> None:
    """Calls of one trainer run one after another; several trainers have states of their own."""
    batch = _batches("classifier")[0]
    alone, shared = Trainer(compiled), Trainer(compiled)
    wanted = sorted(alone.step(batch) for _ in range(24))
    with ThreadPoolExecutor(4) as pool:
        found = sorted(pool.map(lambda _: shared.step(batch), range(24)))
    assert found == wanted
    shared.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", [{"beside": True}, {"small": True}, {"cpu": "avx2,generic"}], ids=str)
def test_other_forms(form: dict[str, Any], tmp_path: Path) -> None:
    """Weights in a file, code for size, and code for several CPUs."""
    burn.manual_seed(0)
    case = CASES["classifier"]
    step = case.make()
    found = training.of(step, case.inputs)
    files = trainers.build("shared", found, tmp_path / "net", options(name="net", **form))
    trainer = Trainer(files[0], tmp_path / "net" / "net.weights.safetensors" if "beside" in form else None)
    for batch in _batches("classifier"):
        wanted = float(step(*batch.values()))
        assert trainer.step(batch) == (wanted if "beside" in form else pytest.approx(wanted, rel=1e-4))


# ---- allocations -----------------------------------------------------------------------------------------------------

COUNTED = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static int calls;
#define COUNTED(result, name, parameters, arguments) \\
    result __real_##name parameters; \\
    result __wrap_##name parameters; \\
    result __wrap_##name parameters { calls++; return __real_##name arguments; }
COUNTED(void *, malloc, (size_t a), (a))
COUNTED(void *, calloc, (size_t a, size_t b), (a, b))
COUNTED(void *, realloc, (void *a, size_t b), (a, b))
COUNTED(void *, aligned_alloc, (size_t a, size_t b), (a, b))
COUNTED(void *, mmap, (void *a, size_t b, int c, int d, int e, long f), (a, b, c, d, e, f))
int main(void) {
    static float x[17 * 8 + 1], loss[3], out[17 * 3 + 1];
    static int64_t y[17];
    net_model *model;
    int first, rest;
    if (net_create(&model, NULL) || net_step(model, 17, x + 1, y, loss + 1) || net_predict(model, 17, x, out + 1))
        return 1;
    first = calls;
    for (int turn = 0; turn < 20; turn++)
        if (net_step(model, 17, x + 1, y, loss + 1) || net_predict(model, 17, x, out + 1))
            return 1;
    rest = calls - first;
    net_destroy(model);
    printf("%d %d", first > 0, rest);
    return 0;
}
"""


def test_later_steps_allocate_nothing(static: Path, tmp_path: Path) -> None:
    """And the files beside the library work: its header, and the example."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler")
    (tmp_path / "counted.c").write_text(COUNTED)
    wrapped = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc", "aligned_alloc", "mmap")]
    links = ["-I", static, "-L", static, "-l:libnet.a", "-lpthread", "-lm"]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run([compiler, "-std=c11", "counted.c", *links, *wrapped, "-o", "counted"], cwd=tmp_path, check=True)
    environment = {**os.environ, "BURN_NUM_THREADS": "1"}  # a thread that wakes late has its scratch to make
    assert subprocess.check_output([tmp_path / "counted"], text=True, env=environment) == "1 0"
    subprocess.run([compiler, *strict, static / "main.c", *links, "-o", "example"], cwd=tmp_path, check=True)
    assert subprocess.check_output([tmp_path / "example"], text=True, cwd=tmp_path) == "net has made 3 steps\n"
    assert (tmp_path / "net.checkpoint.safetensors").is_file()


# ---- other steps -----------------------------------------------------------------------------------------------------

w = nn.Parameter(np.arange(24, dtype=np.float32).reshape(3, 8) / 24)
swapped = nn.Parameter(np.ones((3, 8), np.float32))
count = nn.Buffer(np.zeros((), np.int64))


def own(x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    """A step without an optimizer, which also exchanges two parameters."""
    value, gradient = burn.value_and_grad(lambda w: nn.CrossEntropyLoss()(x @ w.T, y))(w * 1)
    moved = w - 0.1 * gradient
    w.assign(swapped * 1)
    swapped.assign(moved)
    count.assign(count + 1)
    return value


def guess(x: burn.Tensor) -> burn.Tensor:
    return x @ w.T


@pytest.mark.slow
def test_a_function_that_assigns_parameters(tmp_path: Path) -> None:
    trainer = Trainer(made(own, CASES["classifier"].inputs, tmp_path / "net", predict=guess))
    assert {t["name"] for t in trainer.about["state"]} == {"w", "swapped", "count"}
    before = [(p, p.array.copy()) for p in (w, swapped, count)]
    try:
        python = burn.jit(own, dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
        for batch in _batches("classifier"):
            assert trainer.step(batch) == float(python(*batch.values()))
        trainer.save(tmp_path / "own.safetensors")
        saved = safetensors.read(tmp_path / "own.safetensors")
        np.testing.assert_array_equal(saved["w"].array(), w.array)
        np.testing.assert_array_equal(saved["swapped"].array(), swapped.array)
        assert int(saved["count"].array()) == len(SIZES)
    finally:
        for p, array in before:
            p.assign(array)


@pytest.mark.slow
def test_frozen_and_foreign_parameters(tmp_path: Path) -> None:
    """A teacher's parameters are no part of checkpoints; steps of parameters without gradients are counted apart."""
    burn.manual_seed(0)
    model, teacher = Classifier(), Classifier().eval()
    model.freeze("features")
    adam = optim.Adam(model, lr=0.01)

    def distil(model: Classifier, x: burn.Tensor) -> burn.Tensor:
        return nn.MSELoss()(model.head(x[:, :1] * burn.ones(16)), teacher(x))  # `norm` has no gradient

    step = burn.train.step(model, distil, adam)
    trainer = Trainer(made(step, {"x": "float32[batch, 8]"}, tmp_path / "net"))
    for batch in _batches("classifier"):
        assert trainer.step(batch) == float(step(batch["x"]))
    step.save(tmp_path / "a.safetensors")
    trainer.save(tmp_path / "b.safetensors")
    _same_files(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    trainer.load(tmp_path / "a.safetensors")


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_steps_that_need_python(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 3))
    inputs = CASES["classifier"].inputs

    def observer(event: object, control: object) -> None:
        pass

    refused = [
        (burn.train.step(model, classify, optim.LBFGS(model)), "LBFGS evaluates the loss several times"),
        (burn.train.step(model, classify, optim.SGD(model, lr=0.1), memory="1 MB"), "memory="),
        (burn.train.Learner(model, classify, optim.SGD(model, lr=0.1), observers=[observer]), "the observer function"),
        (burn.train.Learner(model, classify, optim.SGD(model, lr=0.1), accumulate_batches=4), "accumulate_batches="),
        (burn.train.Learner(model, classify, optim.SGD(model, lr=0.1), anomaly=True), "anomaly="),
    ]
    for step, message in refused:
        with pytest.raises(CompileError, match=message):
            training.of(step, inputs)

    def calls(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
        burn.debug.callback(print, x)
        return classify(model, x, y)

    def depends(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
        return classify(model, x, y) if float(x.sum()) > 0 else classify(model, -x, y)

    with pytest.raises(CompileError, match=r"burn\.debug\.callback calls a Python function"):
        made(burn.train.step(model, calls, optim.SGD(model, lr=0.1)), inputs, tmp_path / "net")
    with pytest.raises(TypeMismatch, match=r"training.py|float\(|value"):
        training.of(burn.train.step(model, depends, optim.SGD(model, lr=0.1)), inputs)
    with pytest.raises(CompileError, match="no training step"):
        training.of(guess, {"x": "float32[batch, 8]"})


ROWS: list[tuple[list[tuple[int | str, ...]], tuple[bool, ...], int]] = [
    ([("batch", 8), ("batch",)], (True, True), 0),
    ([("classes",), ("batch", 8), ()], (False, True, False), 0),  # the name decides
    ([("k", 3), ("n", 8), ("n",)], (False, True, True), 0),  # then the commonest
    ([(16, 8), (16,), (3,)], (True, True, False), 16),
    ([(3,), ("n", 8)], (False, True), 0),
]

NO_ROWS: list[tuple[list[tuple[int | str, ...]], str]] = [
    ([("2*n", 4)], "no first axis is a size of its own"),
    ([()], "no first axis is a size of its own"),
    ([("n", 4), ("m",)], "several first axes could be it"),
    ([(16, 4), (3,)], "several first axes could be it"),
    ([("batch", 4), ("2*batch",)], "'in1' is float32[2*batch]"),
    ([("time", "batch", 4), ("batch",)], "'in0' is float32[time, batch, 4]"),
    ([("batch", "batch")], "'in0' is float32[batch, batch]"),
]


def _interface(types: list[tuple[int | str, ...]]) -> TrainInterface:
    inputs = tuple(ValueSpec(f"in{i}", "float32", dims) for i, dims in enumerate(types))
    return TrainInterface("net", Interface.of("net", Signature(inputs, ())), None)


def test_which_inputs_have_rows() -> None:
    for types, has_rows, size in ROWS:
        assert rows_of(_interface(types)) == Rows(has_rows, size), types
    for types, message in NO_ROWS:
        with pytest.raises(CompileError, match="command") as failure:
            rows_of(_interface(types))
        assert message in str(failure.value), types


def test_inputs_by_name() -> None:
    step = CASES["classifier"].make()
    with pytest.raises(TypeMismatch, match="the type of 'y' is not given"):
        training.of(step, {"x": "float32[batch, 8]"})
    with pytest.raises(TypeMismatch, match="there is no input 'z'"):
        training.of(step, {**CASES["classifier"].inputs, "z": "float32[2]"})
    with pytest.raises(TypeMismatch, match="predict: "):
        training.of(step, {"x": "float32[batch, 8]", "y": "int64[batch]"}, lambda *x: x)


def test_crc32_of_checkpoints_is_zlibs(trainer: Trainer, tmp_path: Path) -> None:
    trainer.save(tmp_path / "a.safetensors")
    saved = safetensors.read(tmp_path / "a.safetensors")
    head = b"model.head.bias float32 [3]"
    wanted = zlib.crc32(saved["model.head.bias"].array().tobytes(), zlib.crc32(head))
    assert f'"model.head.bias": {wanted}' in saved.metadata[checkpoints.CHECKSUMS]
