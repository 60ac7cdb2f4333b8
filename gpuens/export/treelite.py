"""Models for Treelite: float64, raw scores bit for bit."""

from __future__ import annotations

from typing import Any

from .additive import Additive, Tree, described

POSTPROCESSORS = {
    "exp": "exponential",
    "logistic": "sigmoid",
    "softmax": "softmax",
    "isolation": "exponential_standard_ratio",
}


def to_treelite(model: Any) -> Any:
    """Return a model for Treelite: gradient boosting, a tree, a forest, bagging of trees, AdaBoost
    of two classes, or an isolation forest, of which Treelite predicts the anomaly score, from 0 to
    1.

    Raw scores (``treelite.gtil.predict(..., pred_margin=True)``) are those of this package to the
    last bit. Errors as of ``Exportable.to_treelite``."""
    additive = described(model)
    try:
        from treelite.model_builder import ModelBuilder
    except ImportError as error:
        raise ImportError("to_treelite needs Treelite: pip install treelite.") from error
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        base_scores=[0.0] * additive.n_outputs,
        **_metadata(additive),
    )
    for tree in additive.trees():
        _add(builder, tree)
    return builder.commit()


def _metadata(model: Additive) -> dict[str, Any]:
    from treelite.model_builder import Metadata, PostProcessorFunc, TreeAnnotation

    forest, n_outputs = model.forest, model.n_outputs
    of_classes = model.classes is not None and n_outputs > 1
    as_vector = forest.width > 1
    task = "kMultiClf" if of_classes else "kRegressor"
    if model.link == "isolation":
        task = "kIsolationForest"
    elif model.classes is not None and not of_classes:
        task = "kBinaryClf"
    n_targets = 1 if of_classes else n_outputs
    output = [-1] * forest.n_trees if as_vector else forest.output.tolist()
    none = [0] * forest.n_trees
    return {
        "metadata": Metadata(
            num_feature=forest.n_features,
            task_type=task,
            average_tree_output=model.n_averaged > 1,
            num_target=n_targets,
            num_class=[n_outputs] if of_classes else [1] * n_targets,
            leaf_vector_shape=_leaf_shape(n_targets, n_outputs, as_vector),
        ),
        "tree_annotation": TreeAnnotation(
            num_tree=forest.n_trees,
            target_id=none if of_classes else output,
            class_id=output if of_classes else none,
        ),
        "postprocessor": _postprocessor(model, PostProcessorFunc),
    }


def _leaf_shape(n_targets: int, n_outputs: int, as_vector: bool) -> tuple[int, int]:
    if not as_vector:
        return 1, 1
    return (1, n_outputs) if n_targets == 1 else (n_targets, 1)


def _postprocessor(model: Additive, function: Any) -> Any:
    if model.link == "identity":
        several = model.n_outputs > 1 and model.classes is not None
        return function("identity_multiclass" if several else "identity")
    if model.link == "sorted" or (model.link == "softmax" and model.slope != 1.0):
        of_classes = " of several classes" if model.link == "softmax" else ""
        raise ValueError(
            f"Treelite has no function that predicts as {model.name}{of_classes} does from a sum "
            "of trees. Use to_c or to_onnx."
        )
    name = POSTPROCESSORS[model.link]
    if model.link == "isolation":
        return function(name, ratio_c=-1.0 / model.slope)
    return function(name, sigmoid_alpha=model.slope)


def _add(builder: Any, tree: Tree) -> None:
    builder.start_tree()
    features, thresholds = tree.feature.tolist(), tree.threshold.tolist()
    missing_left, left, right = tree.missing_left.tolist(), tree.left.tolist(), tree.right.tolist()
    values = tree.value.tolist()
    for node, feature in enumerate(features):
        builder.start_node(node)
        if feature < 0:
            builder.leaf(values[node] if len(values[node]) > 1 else values[node][0])
        elif node in tree.members:
            members, goes_left = tree.members[node]
            builder.categorical_test(
                feature,
                default_left=not goes_left,
                category_list=members.tolist(),
                category_list_right_child=not goes_left,
                left_child_key=left[node],
                right_child_key=right[node],
            )
        else:
            builder.numerical_test(
                feature,
                thresholds[node],
                default_left=bool(missing_left[node]),
                opname="<=",
                left_child_key=left[node],
                right_child_key=right[node],
            )
        builder.data_count(int(tree.n_samples[node]))
        builder.sum_hess(float(tree.cover[node]))
        builder.end_node()
    builder.end_tree()
