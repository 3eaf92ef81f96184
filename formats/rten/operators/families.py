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
    "attention": {
        "": "Attention RotaryEmbedding",
    },
    "bits": {
        "": "BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor",
    },
    "casting": {
        "": "BitCast Cast CastLike",
    },
    "comparison": {
        "": "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor",
    },
    "contrib": {
        "com.microsoft": (
            "BiasGelu CDist DequantizeLinear EmbedLayerNormalization ExpandDims FastGelu FusedConv FusedGemm "
            "FusedMatMul Gelu MatMulNBits NhwcMaxPool QuantizeLinear QuickGelu RotaryEmbedding "
            "SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization TransposeMatMul "
            "Trilu"
        ),
    },
    "contrib_attention": {
        "com.microsoft": "Attention GroupQueryAttention MultiHeadAttention QAttention",
    },
    "contrib_quantized": {
        "com.microsoft": (
            "DynamicQuantizeMatMul GatherBlockQuantized MatMulIntegerToFloat QGemm QLinearAdd QLinearAveragePool "
            "QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid "
            "QLinearSoftmax QLinearWhere"
        ),
    },
    "contrib_recurrence": {
        "com.microsoft": "DynamicQuantizeLSTM",
    },
    "contrib_twins": {
        "com.microsoft": "GatherND Pad Range Unique",
    },
    "control_flow": {
        "": "If Loop Scan",
    },
    "convolution": {
        "": "CausalConvWithState Conv ConvTranspose",
    },
    "creation": {
        "": "Constant ConstantOfShape EyeLike Range",
    },
    "cumulative": {
        "": "CumProd CumSum",
    },
    "dynamic_quantization": {
        "": "DynamicQuantizeLinear",
    },
    "elementwise": {
        "": (
            "Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Clip Cos Cosh Div Erf Exp Floor Log Max Mean Min Mod Mul "
            "Neg Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan Tanh"
        ),
    },
    "grids": {
        "": "AffineGrid DeformConv GridSample",
    },
    "indexing": {
        "": "Compress Gather GatherElements GatherND NonZero OneHot Trilu",
    },
    "integer_products": {
        "": "ConvInteger MatMulInteger",
    },
    "linear_attention": {
        "": "LinearAttention",
    },
    "losses": {
        "": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    },
    "matrix": {
        "": "Det Einsum Gemm MatMul",
    },
    "ml": {
        "ai.onnx.ml": (
            "ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder LinearClassifier LinearRegressor "
            "Normalizer OneHotEncoder Scaler ZipMap"
        ),
    },
    "ngrams": {
        "": "TfIdfVectorizer",
    },
    "normalization": {
        "": (
            "BatchNormalization GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax "
            "LpNormalization MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization Softmax"
        ),
    },
    "overlaps": {
        "": "Col2Im",
    },
    "padding": {
        "": "Pad",
    },
    "pooling": {
        "": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxUnpool",
    },
    "preview": {
        "ai.onnx.preview": "FlexAttention",
        "ai.onnx.preview.training": "Adagrad Adam Momentum",
    },
    "quantization": {
        "": "DequantizeLinear QLinearConv QLinearMatMul QuantizeLinear",
    },
    "random": {
        "": "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    },
    "recurrence": {
        "": "GRU LSTM RNN",
    },
    "reduction": {
        "": (
            "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
            "ReduceSum ReduceSumSquare TopK"
        ),
    },
    "regions": {
        "": "CenterCropPad RoiAlign",
    },
    "resize": {
        "": "Resize Upsample",
    },
    "scatter": {
        "": "Scatter ScatterElements ScatterND TensorScatter",
    },
    "sequence": {
        "": (
            "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct "
            "SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence"
        ),
    },
    "shape": {
        "": "DepthToSpace Expand Flatten Identity Reshape Shape Size SpaceToDepth Squeeze Tile Transpose Unsqueeze",
    },
    "signal": {
        "": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    },
    "slicing": {
        "": "Concat ReverseSequence Slice Split",
    },
    "support_vectors": {
        "ai.onnx.ml": "SVMClassifier SVMRegressor",
    },
    "suppression": {
        "": "NonMaxSuppression",
    },
    "trees": {
        "ai.onnx.ml": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
    },
    "unique": {
        "": "Unique",
    },
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
