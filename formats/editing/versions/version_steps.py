"""What changed between each version of an operator and the one before it: one row for each, up and down.

Three kinds of rows. Where only types differ, and the text of the definition does not, `operator_types.txt` says so; it
is generated. `SAME` has those whose new text, compared by hand, means the same, or that only have a further attribute
or input whose default means what the older version does. `STEPS` has the others, and how a node is rewritten. A version
that is in none of these is refused: nobody has compared it with the one before it.

That a node has only what the version on the other side has (attributes, inputs, types) is checked after each step.

Spec: ONNX docs, Changelog.md and Changelog-ml.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.versions.operator_rewritings import (
    cast_down,
    cast_up,
    constant_down,
    deconvolution,
    dequantized_type_down,
    dft_down,
    dft_up,
    dropout_up,
    float8_of_infinity,
    group_norm_up,
    label_tensors_down,
    labels_down,
    labels_up,
    layout_down,
    mask_down,
    mask_up,
    norm_down,
    norm_outputs,
    norm_spatial_up,
    norm_up,
    one_scale_down,
    pad_axes_down,
    power_down,
    power_up,
    quantized_type_down,
    ratio_down,
    ratio_up,
    reshape_down,
    roi_down,
    roi_up,
    sample_modes_down,
    sample_modes_up,
    scatter_up,
    sequence_down,
    sequence_up,
    shape_down,
    softmax_down,
    softmax_up,
    split_down,
    split_input_up,
    split_up,
    tile_down,
    tile_up,
    tree_tensors_down,
)
from formats.editing.versions.resize_rewritings import (
    resize_axes_down,
    resize_places_down,
    resize_places_up,
    resize_region_down,
    resize_region_up,
    upsample_scales_down,
    upsample_scales_up,
    upsample_up,
)
from formats.editing.versions.rewritings import (
    SCAN,
    attributes_of,
    axes_down,
    axis_down,
    broadcast_down,
    broadcast_up,
    dropped,
    equal_dims_down,
    gemm_down,
    gemm_inputs_down,
    indices_down,
    inputs_of,
    one_hot_down,
    only,
    prelu_down,
    prelu_up,
    refused,
    renamed,
    slice_axes_down,
    slice_down,
    slice_up,
    unchanged,
    with_default,
    without_ones,
)
from formats.ir import MACHINE_LEARNING, ONNX
from formats.onnxpb.operator_sets import is_same_text

if TYPE_CHECKING:
    from formats.editing.versions.rewritings import Rewriting


class Step(NamedTuple):
    """How a node gets the newer version of its operator from the older one, and back."""

    up: Rewriting = unchanged
    down: Rewriting = unchanged


SAME: Final = {
    3: "GRU",
    6: "Gemm",
    7: "AveragePool",
    8: "MaxPool",
    9: "Cast",
    10: "AveragePool",
    11: "Constant DepthToSpace If Loop MaxUnpool NonMaxSuppression TopK",
    12: "ArgMax ArgMin GatherND MaxPool ReduceMax ReduceMin",
    13: (
        "Abs ArgMax ArgMin Cast Ceil Clip DepthToSpace Floor Gather GatherElements GatherND Gemm LRN Loop "
        "MeanVarianceNormalization Mod NegativeLogLikelihoodLoss Pad Pow ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare Slice SoftmaxCrossEntropyLoss"
    ),
    14: "Add Div Mul Sub",
    15: "BatchNormalization",
    16: "Loop ScatterElements ScatterND",
    18: "OptionalGetElement OptionalHasElement",
    19: "Cast CastLike DequantizeLinear QuantizeLinear",
    20: "ReduceMax ReduceMin",
    21: "DequantizeLinear Transpose",
    22: "AveragePool Dropout EyeLike LSTM MaxPool",
    23: "QuantizeLinear Squeeze Unsqueeze",
    24: "Attention QuantizeLinear",
    25: "Attention QuantizeLinear Transpose",
    27: "Range",
    28: "BitShift Mod QuantizeLinear SpaceToDepth",
}

# `consumed_inputs` of version 1 is a hint for the memory of a program that no longer exists.
_WITHOUT_HINT: Final = Step(up=dropped("consumed_inputs"))
# Before version 7, `broadcast` and `axis` say where the second input lies in the first; from it on, dims say it.
_BROADCAST: Final = Step(broadcast_up, broadcast_down)
_AXES: Final = Step(inputs_of("axes"), attributes_of("axes"))
# As `_AXES`, but a reduction may have no axes, and `noop_with_empty_axes` says what that means.
_REDUCED_AXES: Final = Step(inputs_of("axes"), axes_down)
_DILATIONS: Final = Step(down=without_ones("dilations"))
# Before version 2, the power of a norm is a FLOAT.
_POWER: Final = Step(power_up, power_down)
_NO_TREES: Final = "version 5 has TreeEnsemble in its place, and nothing converts it"

# The version, what changed in it, and all operators in which the same changed.
_SHARED: Final = (
    (
        6,
        _WITHOUT_HINT,
        "Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu "
        "Log Max Mean Min Mul Neg PRelu Reciprocal Relu Sigmoid Sqrt Sub Sum Tanh",
    ),
    (7, _BROADCAST, "Add And Div Equal Greater Less Mul Or Pow Sub Xor"),
    (7, Step(sequence_up, sequence_down), "GRU LSTM RNN"),
    (8, Step(down=equal_dims_down), "Max Mean Min Sum"),
    (
        11,
        Step(down=axis_down),
        "ArgMax ArgMin AveragePool Compress Concat Conv Flatten Hardmax LogSoftmax LpPool MaxPool ReduceL1 ReduceL2 "
        "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Scan Softmax "
        "Split Squeeze Unsqueeze",
    ),
    (13, Step(softmax_up, softmax_down), "Hardmax LogSoftmax Softmax"),
    (13, Step(down=one_scale_down), "DequantizeLinear QuantizeLinear"),
    (14, Step(down=layout_down), "GRU LSTM RNN"),
    (
        18,
        _REDUCED_AXES,
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare",
    ),
    (24, Step(float8_of_infinity, float8_of_infinity), "Cast CastLike"),
)
STEPS: Final[dict[tuple[str, int], Step]] = {
    **{(name, version): step for version, step, names in _SHARED for name in names.split()},
    ("AveragePool", 19): _DILATIONS,
    ("BatchNormalization", 7): Step(norm_up, norm_down),  # `is_test` went
    ("BatchNormalization", 9): Step(norm_spatial_up),  # `spatial` went
    ("BatchNormalization", 14): Step(norm_outputs, norm_outputs),  # `training_mode` came; three outputs, not five
    ("Cast", 6): Step(cast_up, cast_down),  # `to` was the name of a type
    ("Clip", 11): Step(inputs_of("min", "max"), attributes_of("min", "max", single=("min", "max"))),
    ("Concat", 4): Step(with_default(axis=1)),
    ("Constant", 12): Step(down=constant_down),
    ("ConvTranspose", 11): Step(deconvolution, deconvolution),
    ("DFT", 20): Step(dft_up, dft_down),  # the axis became an input
    ("DequantizeLinear", 23): Step(down=dequantized_type_down),
    ("Dropout", 7): Step(dropout_up, with_default(is_test=1)),  # `is_test` went
    ("Dropout", 10): Step(mask_up, mask_down),  # the mask became one of truth values
    ("Dropout", 12): Step(ratio_up, ratio_down),  # the ratio became an input
    ("Gather", 11): Step(down=indices_down),
    ("Gemm", 7): Step(dropped("broadcast"), gemm_down),
    ("Gemm", 11): Step(down=gemm_inputs_down),
    ("GlobalLpPool", 2): _POWER,
    ("GridSample", 20): Step(sample_modes_up, sample_modes_down),
    ("GroupNormalization", 21): Step(group_norm_up, refused("version 18 has one scale for each group")),
    ("LpPool", 2): _POWER,
    ("LpPool", 18): _DILATIONS,
    ("MaxPool", 10): _DILATIONS,
    ("OneHot", 11): Step(down=one_hot_down),  # negative indices count from the end
    ("PRelu", 7): Step(prelu_up, prelu_down),  # slopes are broadcast
    ("Pad", 2): Step(renamed(paddings="pads"), renamed(pads="paddings")),
    ("Pad", 11): Step(inputs_of("pads", "value"), attributes_of("pads", "value", single=("value",))),
    ("Pad", 18): Step(down=pad_axes_down),
    ("Pad", 19): Step(down=only("mode", "constant", "reflect", "edge", since=19)),
    ("QuantizeLinear", 21): Step(down=quantized_type_down),
    ("ReduceSum", 13): _REDUCED_AXES,
    ("Reshape", 5): Step(inputs_of("shape", drop=("consumed_inputs",)), attributes_of("shape")),
    ("Reshape", 14): Step(down=reshape_down),
    ("Resize", 11): Step(resize_places_up, resize_places_down),  # `coordinate_transformation_mode` came
    ("Resize", 13): Step(resize_region_up, resize_region_down),  # `tf_half_pixel_for_nn` went
    ("Resize", 18): Step(down=resize_axes_down),
    ("Resize", 19): Step(
        down=only(
            "coordinate_transformation_mode",
            *("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"),
            since=19,
        )
    ),
    ("RoiAlign", 16): Step(roi_up, roi_down),  # half a pixel by default
    ("Scan", 9): Step(refused(SCAN), refused(SCAN)),
    ("Scatter", 11): Step(scatter_up),
    ("ScatterElements", 18): Step(down=only("reduction", "none", "add", "mul", since=18)),
    ("ScatterND", 18): Step(down=only("reduction", "none", "add", "mul", since=18)),
    ("Selu", 6): Step(
        with_default("consumed_inputs", alpha=1.6732, gamma=1.0507),
        with_default(alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    ),
    ("Shape", 15): Step(down=shape_down),
    ("Slice", 10): Step(slice_up, slice_down),
    ("Slice", 11): Step(down=slice_axes_down),
    ("Split", 2): Step(split_input_up),  # the sizes could be an input
    ("Split", 13): Step(inputs_of("split"), attributes_of("split")),
    ("Split", 18): Step(split_up, split_down),  # `num_outputs` came
    ("Squeeze", 13): _AXES,
    ("Tile", 6): Step(tile_up, tile_down),  # the axis and the repeats were two inputs
    ("TopK", 10): Step(inputs_of("k"), attributes_of("k", single=("k",))),
    ("Unsqueeze", 13): _AXES,
    ("Upsample", 7): Step(upsample_scales_up, upsample_scales_down),
    ("Upsample", 9): Step(inputs_of("scales"), attributes_of("scales")),
    ("Upsample", 10): Step(upsample_up),
}
ML_STEPS: Final[dict[tuple[str, int], Step]] = {
    ("LabelEncoder", 2): Step(labels_up, labels_down),
    ("LabelEncoder", 4): Step(down=label_tensors_down),
    ("TreeEnsembleClassifier", 3): Step(down=tree_tensors_down),
    ("TreeEnsembleClassifier", 5): Step(refused(_NO_TREES)),
    ("TreeEnsembleRegressor", 3): Step(down=tree_tensors_down),
    ("TreeEnsembleRegressor", 5): Step(refused(_NO_TREES)),
}
_SAME_ROWS: Final = {(name, version) for version, names in SAME.items() for name in names.split()}


def step_to(domain: str, operator: str, version: int) -> Step | None:
    """What changed in a version of an operator, since the one before it; `None` if nobody has compared them."""
    if domain == MACHINE_LEARNING:
        step = ML_STEPS.get((operator, version))
    else:
        step = STEPS.get((operator, version)) or (Step() if (operator, version) in _SAME_ROWS else None)
    if step is None and is_same_text(domain or ONNX, operator, version):
        return Step()
    return step
