"""Every estimator that skl2onnx converts, with its defaults, and LightGBM and XGBoost by onnxmltools, against ONNX Runtime.

Runs where the packages are (the extra `classical`): `python -m pytest -m slow tests/importers/test_sklearn.py`. Without
the mark a few run; BURN_SWEEP=9 draws other data. Estimators that cannot be tested here, or that skl2onnx or ONNX Runtime refuse,
are skipped with the reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from burn.adapters.onnx import load_onnx

skl2onnx = pytest.importorskip("skl2onnx")
sklearn = pytest.importorskip("sklearn")
warnings.filterwarnings("ignore")

SEED = int(os.environ.get("BURN_SWEEP", "0"))
USUAL = ("LogisticRegression", "RandomForestClassifier", "SVC", "OneHotEncoder", "TfidfVectorizer", "KMeans")
TEXT = ("CountVectorizer", "TfidfVectorizer")
COUNTS = (
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "MultinomialNB",
    "NMF",
    "TfidfTransformer",
    "LatentDirichletAllocation",
)
ENCODERS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")
LABELS = ("LabelBinarizer", "LabelEncoder")
META_CLASSIFIERS = (
    "CalibratedClassifierCV", "ClassifierChain", "FixedThresholdClassifier", "MultiOutputClassifier", "OneVsOneClassifier",
    "OneVsRestClassifier", "OutputCodeClassifier", "RFE", "RFECV", "SelectFromModel", "TunedThresholdClassifierCV",
)  # fmt: skip
BINARY = (
    "GaussianProcessClassifier",
    "NuSVC",
    "TunedThresholdClassifierCV",
    "FixedThresholdClassifier",
    "TargetEncoder",
)
ROWS = 60


def supported() -> dict[str, type]:
    from skl2onnx._supported_operators import sklearn_operator_name_map

    return {kind.__name__: kind for kind in sklearn_operator_name_map}


def made(name: str, kind: Any) -> Any:
    """An estimator as its class makes it, around a small one where it needs another."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    classifiers = [("a", LogisticRegression()), ("b", DecisionTreeClassifier(max_depth=3))]
    special: dict[str, Callable[[], Any]] = {
        "ColumnTransformer": lambda: kind([("a", StandardScaler(), [0, 1]), ("b", "passthrough", [3])]),
        "FeatureUnion": lambda: kind([("a", StandardScaler()), ("b", MinMaxScaler())]),
        "GaussianRandomProjection": lambda: kind(n_components=3),
        "GridSearchCV": lambda: kind(LogisticRegression(), {"C": [0.1, 1]}),
        "KBinsDiscretizer": lambda: kind(encode="ordinal"),
        "LocalOutlierFactor": lambda: kind(novelty=True),
        "MultiOutputRegressor": lambda: kind(Ridge()),
        "NearestNeighbors": lambda: kind(n_neighbors=3, radius=None),
        "Pipeline": lambda: kind([("s", StandardScaler()), ("l", LogisticRegression())]),
        "RandomizedSearchCV": lambda: kind(LogisticRegression(), {"C": [0.1, 1]}, n_iter=2),
        "RegressorChain": lambda: kind(Ridge()),
        "StackingClassifier": lambda: kind(classifiers),
        "StackingRegressor": lambda: kind([("a", LinearRegression()), ("b", Ridge())]),
        "VotingClassifier": lambda: kind(classifiers, flatten_transform=False),
        "VotingRegressor": lambda: kind([("a", LinearRegression()), ("b", Ridge())]),
    }
    if name in special:
        return special[name]()
    if name in META_CLASSIFIERS:
        return kind(LogisticRegression())
    few = {"n_estimators": 8, "max_iter": 40} if "MLP" in name or "n_estimators" in kind().get_params() else {}
    return kind(**{key: value for key, value in few.items() if key in kind().get_params()})


def data(name: str, kind: Any) -> tuple[np.ndarray, Any]:
    """Features and targets that an estimator takes."""
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((ROWS, 4)).astype(np.float32)
    classes = (x[:, 0] + x[:, 1] > 0).astype(np.int64) + (x[:, 2] > 0.5)
    real = (x @ np.array([1, 2, -1, 0.5])).astype(np.float32)
    if name in TEXT:
        words = np.array(["hello world", "the world is big", "you are the one", "hello", "a big one"], object)
        return words.reshape(-1, 1), None
    if name in LABELS:
        return classes, None
    if name in ENCODERS:
        x = np.floor(np.abs(x[:, :2])).clip(0, 2).astype(np.int64)
    if name in COUNTS:
        x = np.floor(np.abs(x)).clip(0, 2)
    if name == "KernelCenterer":
        x = (x @ x.T).astype(np.float32)
    target = classes > 0 if name in BINARY else classes
    if name.startswith("MultiTask") or name in ("MultiOutputRegressor", "RegressorChain"):
        return x, np.stack([real, -real], 1)
    if name in ("MultiOutputClassifier", "ClassifierChain"):
        return x, np.stack([classes > 0, classes > 1], 1).astype(np.int64)
    if issubclass(kind, sklearn.base.RegressorMixin):
        positive = name in ("GammaRegressor", "PoissonRegressor", "TweedieRegressor")
        return x, np.abs(real) + 0.1 if positive else real
    return x, target


def converted(name: str, kind: Any) -> tuple[Any, np.ndarray]:
    x, target = data(name, kind)
    estimator = made(name, kind)
    if name in TEXT:
        estimator.fit(x[:, 0])
        return skl2onnx.convert_sklearn(
            estimator, initial_types=[("text", skl2onnx.common.data_types.StringTensorType([None, 1]))]
        ), x
    estimator.fit(x) if target is None else estimator.fit(x, target)
    x = x.reshape(-1, 1) if name == "LabelBinarizer" else x
    opset = {"": 18, "ai.onnx.ml": 3}
    return skl2onnx.to_onnx(estimator, x[:1], target_opset=opset), x


def compare(proto: Any, x: np.ndarray) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session: Any = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        name = session.get_inputs()[0].name
        wanted = {rows: session.run(None, {name: x[:rows]}) for rows in (17, 1)}
    except Exception as error:
        pytest.skip(f"ONNX Runtime: {str(error)[:200]}")
    executable = load_onnx(proto)
    for rows, want in wanted.items():
        got = list(executable.run({name: x[:rows]}).values())
        for mine, theirs in zip(got, want, strict=True):
            same(mine, theirs)


def same(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
        assert [list(row) for row in mine] == [list(row) for row in theirs]
        mine, theirs = (np.array([list(row.values()) for row in rows]) for rows in (mine, theirs))
    if isinstance(theirs, list):
        assert isinstance(mine, list) and len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            same(a, b)
        return
    mine = np.asarray(mine)
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
    if theirs.dtype.kind in "fc":
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4)
    else:
        np.testing.assert_array_equal(mine, theirs)


def check(name: str) -> None:
    try:
        proto, x = converted(name, supported()[name])
    except Exception as error:
        pytest.skip(f"not converted: {type(error).__name__}: {str(error)[:200]}")
    compare(proto, x)


@pytest.mark.parametrize("name", [name for name in USUAL if name in supported()])
def test_usual_estimators(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(supported().keys() - set(USUAL)))
def test_every_estimator(name: str) -> None:
    check(name)


def test_calibrated_support_vectors() -> None:
    from sklearn.svm import SVC

    x, target = data("SVC", SVC)
    compare(skl2onnx.to_onnx(SVC(probability=True).fit(x, target), x[:1]), x)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("task", ["two", "three", "real"])
def test_boosted_trees(package: str, task: str) -> None:
    library = pytest.importorskip(package)
    tools = pytest.importorskip("onnxmltools")
    x, classes = data("SVC", object)
    target = {"two": classes > 0, "three": classes, "real": x[:, 0] * 2 - x[:, 1]}[task]
    prefix = {"lightgbm": "LGBM", "xgboost": "XGB"}[package]
    kind = getattr(library, prefix + ("Regressor" if task == "real" else "Classifier"))
    estimator = kind(n_estimators=5, max_depth=3).fit(x, target)
    types = [("input", tools.convert.common.data_types.FloatTensorType([None, 4]))]
    try:
        proto = getattr(tools, f"convert_{package}")(estimator, initial_types=types)
    except Exception as error:
        pytest.skip(f"not converted: {str(error)[:200]}")
    compare(proto, x)
