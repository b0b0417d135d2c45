"""scikit-learn and SciPy with burn tensors, against the same calls with numpy arrays. A program of its own, since both libraries
read SCIPY_ARRAY_API when they are imported: `python -m tests.array_api.libraries PCA accuracy_score` prints a line for each."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np

import burn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5)).astype(np.float32)
Y = (X[:, 0] * 2 + X[:, 1] - X[:, 2]).astype(np.float32)
NEAR = (Y + 0.1 * RNG.standard_normal(60)).astype(np.float32)
LABELS = (X[:, 0] + 0.3 * RNG.standard_normal(60) > 0).astype(np.int64)
GUESSES = LABELS ^ (RNG.random(60) < 0.2)
CHANCES = RNG.random(60).astype(np.float32)
V, W = RNG.standard_normal((2, 20))
POSITIVE = np.abs(X.astype(np.float64)) + 0.1

Entry = tuple[Callable[..., Any], tuple[Any, ...]]


def estimator(path: str, target: Any = None, methods: tuple[str, ...] = ("predict",), **options: Any) -> Entry:
    def run(x: Any, *targets: Any) -> Any:
        fitted = imported(path)(**options).fit(x, *targets)
        return tuple(getattr(fitted, method)(x) for method in methods)

    return run, (X,) if target is None else (X, target)


def function(path: str, *args: Any, **options: Any) -> Entry:
    return lambda *given: imported(path)(*given, **options), args


def imported(path: str) -> Any:
    from importlib import import_module

    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _metrics(names: str, *args: Any) -> dict[str, Entry]:
    return {name: function(f"sklearn.metrics.{name}", *args) for name in names.split()}


def _scipy(module: str, names: str, *args: Any, **options: Any) -> dict[str, Entry]:
    return {f"{module}.{name}": function(f"scipy.{module}.{name}", *args, **options) for name in names.split()}


SCIKIT_LEARN: dict[str, Entry] = {
    "PCA": estimator("sklearn.decomposition.PCA", None, ("transform",), n_components=3, svd_solver="full"),
    "Ridge": estimator("sklearn.linear_model.Ridge", Y, solver="svd"),
    "RidgeCV": estimator("sklearn.linear_model.RidgeCV", Y),
    "LinearDiscriminantAnalysis": estimator(
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis", LABELS, ("predict", "transform", "predict_proba")
    ),
    "GaussianNB": estimator("sklearn.naive_bayes.GaussianNB", LABELS, ("predict", "predict_proba")),
    "LogisticRegression": estimator("sklearn.linear_model.LogisticRegression", LABELS, ("predict", "predict_proba")),
    "GaussianMixture": estimator(
        "sklearn.mixture.GaussianMixture", None, ("predict",), n_components=2, init_params="random", random_state=0
    ),
    **{
        name: estimator(f"sklearn.preprocessing.{name}", None, ("transform",))
        for name in ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "Normalizer", "Binarizer", "PolynomialFeatures")
    },
    **_metrics(
        "mean_squared_error mean_absolute_error r2_score explained_variance_score max_error median_absolute_error "
        "mean_absolute_percentage_error root_mean_squared_error mean_pinball_loss d2_absolute_error_score", Y, NEAR
    ),
    **_metrics(
        "accuracy_score balanced_accuracy_score cohen_kappa_score confusion_matrix f1_score hamming_loss jaccard_score "
        "precision_score recall_score zero_one_loss multilabel_confusion_matrix", LABELS, GUESSES
    ),
    **_metrics("brier_score_loss log_loss average_precision_score", LABELS, CHANCES),
    **{
        f"pairwise.{name}": function(f"sklearn.metrics.pairwise.{name}", np.abs(X), np.abs(X) * 0.5)
        for name in ("euclidean_distances", "cosine_similarity", "linear_kernel", "rbf_kernel", "laplacian_kernel", "chi2_kernel")
    },
}  # fmt: skip

SCIPY: dict[str, Entry] = {
    **_scipy(
        "stats",
        "zscore skew kurtosis variation sem kstat tmean iqr jarque_bera normaltest rankdata mode",
        X.astype(np.float64),
    ),
    **_scipy("stats", "gmean hmean entropy power_divergence chisquare", POSITIVE),
    **_scipy("stats", "pearsonr ttest_ind ttest_rel mannwhitneyu wilcoxon bartlett levene kruskal", V, W),
    **_scipy("special", "expit erf gammaln digamma ndtr entr", POSITIVE),
    **_scipy("special", "logsumexp softmax log_softmax", X.astype(np.float64), axis=1),
    **_scipy("integrate", "trapezoid cumulative_trapezoid", V),
    **_scipy("signal", "detrend medfilt", V),
    **_scipy("signal", "convolve", V, W),
    **_scipy("cluster.vq", "whiten", POSITIVE),
    **_scipy("ndimage", "gaussian_filter", POSITIVE, sigma=1.0),
}

REFUSED: dict[str, tuple[Entry, str]] = {
    "matthews_corrcoef": (
        _metrics("matthews_corrcoef", LABELS, GUESSES)["matthews_corrcoef"], "unexpected keyword argument 'dtype'"
    ),
    "roc_curve": (_metrics("roc_curve", LABELS, CHANCES)["roc_curve"], "takes 1 positional argument"),
    "stats.spearmanr": (_scipy("stats", "spearmanr", V, W)["stats.spearmanr"], "column_stack"),
}  # fmt: skip
"""Calls that fail, and how: the libraries call functions there that are not in the standard."""


def flat(result: Any) -> list[np.ndarray]:
    if hasattr(result, "statistic"):
        result = (result.statistic, result.pvalue)
    if isinstance(result, (tuple, list)):
        return [a for part in result for a in flat(part)]
    return [np.asarray(result, dtype=float)]


def kinds(result: Any) -> set[str]:
    if isinstance(result, tuple):
        return {k for part in result for k in kinds(part)}
    return {type(result).__name__}


def main(names: list[str]) -> None:
    from sklearn import config_context

    entries = SCIKIT_LEARN | SCIPY | {name: entry for name, (entry, _) in REFUSED.items()}
    warnings.simplefilter("ignore")
    for name in names or [*SCIKIT_LEARN, *SCIPY, *REFUSED]:
        run, args = entries[name]
        with config_context(array_api_dispatch=True):
            want = run(*args)
            try:
                found = run(*map(burn.tensor, args))
            except Exception as error:
                print(name, "error", f"{type(error).__name__}: {error}".splitlines()[0], sep="\t")
                continue
        scale = max(1.0, *(float(np.max(np.abs(w), initial=0)) for w in flat(want)))
        far = max(float(np.max(np.abs(f - w), initial=0)) for f, w in zip(flat(found), flat(want), strict=True)) / scale
        print(name, far, ",".join(sorted(kinds(found))), sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
