"""Makes the models in `tests/rten/learned`: models trained with libraries, as their converters write them.

This needs scikit-learn, skl2onnx, LightGBM, XGBoost and onnxmltools; the tests need none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.tree import DecisionTreeRegressor

FOLDER = Path(__file__).parents[1] / "rten" / "learned"
OPSETS = {"": 17, "ai.onnx.ml": 3}
FEATURES = 6

two = make_classification(200, FEATURES, n_informative=4, n_redundant=0, random_state=0)
four = make_classification(200, FEATURES, n_informative=5, n_redundant=0, n_classes=4, random_state=1)
numbers, target = make_regression(200, FEATURES, noise=3, random_state=0)
DATA = {
    "two": (two[0].astype(np.float32), two[1]),
    "four": (four[0].astype(np.float32), four[1]),
    "number": (numbers.astype(np.float32), target / 100),
}
GAPS = np.where(np.random.default_rng(0).random(two[0].shape) < 0.1, np.nan, two[0]).astype(np.float32)
DATA["gaps"] = (GAPS, two[1])
SKLEARN: dict[str, Any] = {
    "logistic_regression.two": LogisticRegression(),
    "logistic_regression.four": make_pipeline(StandardScaler(), Normalizer(), PCA(3), LogisticRegression()),
    "linear_regression.number": LinearRegression(),
    "imputed.gaps": make_pipeline(SimpleImputer(), LogisticRegression()),
    "random_forest.two": RandomForestClassifier(7, max_depth=4, random_state=0),
    "random_forest.four": RandomForestClassifier(7, max_depth=4, random_state=0),
    "gradient_boosting.four": GradientBoostingClassifier(n_estimators=4, random_state=0),
    "decision_tree.number": DecisionTreeRegressor(max_depth=4, random_state=0),
    "ada_boost.number": AdaBoostRegressor(n_estimators=4, random_state=0),
    "isolation_forest.number": IsolationForest(n_estimators=4, max_samples=32, random_state=0),
    "neighbours.four": KNeighborsClassifier(3),
    "support_vectors.two": SVC(),
    "support_vectors.four": SVC(kernel="poly"),
    "support_vectors.number": SVR(),
    "novelty.number": OneClassSVM(kernel="sigmoid", coef0=0.1),
}


def write(name: str, proto: Any) -> None:
    """Write a model."""
    (FOLDER / f"{name}.onnx").write_bytes(proto.SerializeToString())


def main() -> None:
    """Write all models, and samples as their inputs."""
    for name, model in SKLEARN.items():
        data, wanted = DATA[name.partition(".")[2]]
        model.fit(data, wanted)
        has_classes = hasattr(model, "classes_")
        options = {"zipmap": False} if has_classes else None
        write(name, to_onnx(model, data[:1], options=options, target_opset=OPSETS))
    types = [("x", FloatTensorType([None, FEATURES]))]
    light = lightgbm.LGBMClassifier(n_estimators=5, max_depth=3, verbose=-1).fit(*DATA["gaps"])
    write("lightgbm.gaps", onnxmltools.convert_lightgbm(light, initial_types=types, zipmap=False, target_opset=15))
    for name, kind in (("xgboost.four", xgboost.XGBClassifier), ("xgboost.number", xgboost.XGBRegressor)):
        boosted = kind(n_estimators=4, max_depth=3).fit(*DATA[name.partition(".")[2]])
        write(name, onnxmltools.convert_xgboost(boosted, initial_types=types, target_opset=15))
    np.savez_compressed(FOLDER / "samples.npz", **{name: data[:40] for name, (data, _) in DATA.items()})


if __name__ == "__main__":
    main()
