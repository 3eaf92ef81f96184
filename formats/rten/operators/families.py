"""Which module has each operator: a conversion imports the families of the operators that it meets.

Written by schemas/generate.py from the modules of this folder; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {  # family: domain: names of operators
    "activation": {
        "": (
            "Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish PRelu Relu Selu Shrink Sigmoid Softplus Softsign "
            "SwiGLU Swish ThresholdedRelu"
        ),
    },
    "attention": {"": "Attention LinearAttention RotaryEmbedding"},
    "boxes": {"": "NonMaxSuppression RoiAlign"},
    "casting": {"": "BitCast Cast CastLike"},
    "comparison": {
        "": (
            "And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterOrEqual IsInf IsNaN Less "
            "LessOrEqual Not Or Where Xor"
        ),
    },
    "contrib": {
        "com.microsoft": (
            "BiasGelu CDist DequantizeLinear EmbedLayerNormalization ExpandDims FastGelu FusedConv FusedGemm "
            "FusedMatMul GatherND Gelu MatMulNBits NhwcMaxPool Pad QuantizeLinear QuickGelu Range RotaryEmbedding "
            "SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization TransposeMatMul "
            "Trilu Unique"
        ),
    },
    "contrib_attention": {"com.microsoft": "Attention GroupQueryAttention MultiHeadAttention QAttention"},
    "contrib_quantized": {
        "com.microsoft": (
            "DynamicQuantizeLSTM DynamicQuantizeMatMul GatherBlockQuantized MatMulIntegerToFloat QGemm QLinearAdd "
            "QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul "
            "QLinearSigmoid QLinearSoftmax QLinearWhere"
        ),
    },
    "control_flow": {"": "If Loop Scan"},
    "convolution": {"": "CausalConvWithState Conv ConvTranspose"},
    "creation": {
        "": (
            "Bernoulli Constant ConstantOfShape Dropout EyeLike Multinomial RandomNormal RandomNormalLike "
            "RandomUniform RandomUniformLike Range"
        ),
    },
    "elementwise": {
        "": (
            "Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Clip Cos Cosh Div Erf Exp Floor Log Max Mean Min Mod Mul "
            "Neg Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan Tanh"
        ),
    },
    "grids": {"": "AffineGrid DeformConv GridSample"},
    "indexing": {
        "": (
            "Compress Gather GatherElements GatherND NonZero OneHot Scatter ScatterElements ScatterND TensorScatter "
            "Trilu Unique"
        ),
    },
    "integer_products": {"": "ConvInteger MatMulInteger"},
    "matrix": {"": "Det Einsum Gemm MatMul"},
    "ml": {
        "ai.onnx.ml": (
            "ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder LinearClassifier LinearRegressor "
            "Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler ZipMap"
        ),
    },
    "normalization": {
        "": (
            "BatchNormalization GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax "
            "LpNormalization MeanVarianceNormalization NegativeLogLikelihoodLoss RMSNormalization "
            "SimplifiedLayerNormalization Softmax SoftmaxCrossEntropyLoss"
        ),
    },
    "padding": {"": "CenterCropPad Pad"},
    "pooling": {"": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxUnpool"},
    "preview": {"ai.onnx.preview": "FlexAttention", "ai.onnx.preview.training": "Adagrad Adam Momentum"},
    "quantization": {"": "DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul QuantizeLinear"},
    "recurrence": {"": "GRU LSTM RNN"},
    "reduction": {
        "": (
            "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
            "ReduceSum ReduceSumSquare TopK"
        ),
    },
    "resize": {"": "Resize Upsample"},
    "sequence": {
        "": (
            "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct "
            "SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence"
        ),
    },
    "shape": {
        "": "DepthToSpace Expand Flatten Identity Reshape Shape Size SpaceToDepth Squeeze Tile Transpose Unsqueeze",
    },
    "signal": {"": "BlackmanWindow CumProd CumSum DFT HammingWindow HannWindow MelWeightMatrix STFT TfIdfVectorizer"},
    "slicing": {"": "Concat ReverseSequence Slice Split"},
    "trees": {"ai.onnx.ml": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"},
    "window": {"": "Col2Im"},
}
# The place among RTen's known releases of the one that added an operator, or a field of one.
NEWER: Final[Mapping[str, int]] = {
    "ConvTranspose.dilations": 1,
    "CumSum.exclusive": 1,
    "CumSum.reverse": 1,
    "LpNormalization": 1,
    "ReduceLogSum": 1,
    "ReduceLogSumExp": 1,
}
WITH_FOLDINGS: Final = ("elementwise", "integer_products", "matrix", "reduction")
