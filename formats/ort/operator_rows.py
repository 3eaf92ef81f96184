"""The operators of ONNX and of onnxruntime in all versions, as text: `operators.py` reads the rows it needs.

Generated from onnx.defs and the schemas in onnxruntime by `python schemas/generate.py`; do not edit.

A line is an operator, and its versions from the oldest on, each as `version inputs outputs attribute:type=default`.
`inputs` is the number of formal inputs. `outputs` has, for each formal output, `iN` if its type is that of input N, the
number of an element type if it always is a tensor of that type, or `?`. Defaults are JSON without spaces. What equals
the version before is only its number. After a number, `f` means that onnxruntime has no kernel for this version on the
CPU, but computes it by its function in ONNX, and `h` that a kernel on the CPU takes float16.
"""
# ruff: noqa: E501 - a row is a line

from __future__ import annotations

from typing import Final

MADE_FROM: Final = (28, (1, 32))
ROWS: Final = {
    "ai.onnx": """\
Abs ; 1 1 i0 ; 6 ; 13
Acos ; 7 1 i0 ; 22
Acosh ; 9 1 i0 ; 22
Add ; 1 2 i0 broadcast:2=0 ; 6 ; 7 2 i0 ; 13 ; 14
AffineGrid ; 20 2 i0 align_corners:2=0
And ; 1 2 9 broadcast:2=0 ; 7 2 9
ArgMax ; 1 1 7 axis:2=0 keepdims:2=1 ; 11 ; 12 1 7 axis:2=0 keepdims:2=1 select_last_index:2=0 ; 13
ArgMin ; 1 1 7 axis:2=0 keepdims:2=1 ; 11 ; 12 1 7 axis:2=0 keepdims:2=1 select_last_index:2=0 ; 13
Asin ; 7 1 i0 ; 22
Asinh ; 9 1 i0 ; 22
Atan ; 7 1 i0 ; 22
Atanh ; 9 1 i0 ; 22
Attention ; 23h 6 i0,i0,i2,i0 is_causal:2=0 qk_matmul_output_mode:2=0 softcap:1=0.0 ; 24h 7 i0,i0,i2,i0 is_causal:2=0 qk_matmul_output_mode:2=0 softcap:1=0.0 ; 25f 7 i0,i0,i2,i0 is_causal:2=0 left_window_size:2=-1 qk_matmul_output_mode:2=0 right_window_size:2=-1 softcap:1=0.0
AveragePool ; 1 1 i0 auto_pad:3="NOTSET" ; 7 1 i0 auto_pad:3="NOTSET" count_include_pad:2=0 ; 10 1 i0 auto_pad:3="NOTSET" ceil_mode:2=0 count_include_pad:2=0 ; 11 ; 19 ; 22
BatchNormalization ; 1 5 i0,i0,i0,i0,i0 epsilon:1=9.999999747378752e-06 is_test:2=0 momentum:1=0.8999999761581421 spatial:2=1 ; 6 ; 7 5 i0,i0,i0,i0,i0 epsilon:1=9.999999747378752e-06 momentum:1=0.8999999761581421 spatial:2=1 ; 9 5 i0,i0,i0,i0,i0 epsilon:1=9.999999747378752e-06 momentum:1=0.8999999761581421 ; 14 5 i0,i3,i3 epsilon:1=9.999999747378752e-06 momentum:1=0.8999999761581421 training_mode:2=0 ; 15
Bernoulli ; 15f 1 ? ; 22f
BitCast ; 26h 1 ?
BitShift ; 11 2 i0 ; 28
BitwiseAnd ; 18 2 i0
BitwiseNot ; 18 1 i0
BitwiseOr ; 18 2 i0
BitwiseXor ; 18 2 i0
BlackmanWindow ; 17 1 ? output_datatype:2=1 periodic:2=1
Cast ; 1 1 ? ; 6h ; 9h ; 13h ; 19h 1 ? saturate:2=1 ; 21h ; 23h ; 24h 1 ? round_mode:3="up" saturate:2=1 ; 25h ; 28h
CastLike ; 15f 2 i1 ; 19f 2 i1 saturate:2=1 ; 21f ; 23f ; 24f 2 i1 round_mode:3="up" saturate:2=1 ; 25f
CausalConvWithState ; 27f 4 i0,i0 activation:3="none"
Ceil ; 1 1 i0 ; 6 ; 13
Celu ; 12 1 1 alpha:1=1.0 ; 28h 1 i0 alpha:1=1.0
CenterCropPad ; 18f 2 i0
Clip ; 1 1 i0 ; 6 1 i0 max:1=3.4028234663852886e+38 min:1=-3.4028234663852886e+38 ; 11 3 i0 ; 12h ; 13h
Col2Im ; 18 3 i0
Compress ; 9h 2 i0 ; 11h ; 28h
Concat ; 1 1 i0 ; 4h ; 11h ; 13h
ConcatFromSequence ; 11 1 ? new_axis:2=0
Constant ; 1 0 ? ; 9 ; 11 ; 12 ; 13 ; 19 ; 21 ; 23 ; 24 ; 25
ConstantOfShape ; 9h 1 ? ; 20h ; 21h ; 23h ; 24h ; 25h
Conv ; 1 3 i0 auto_pad:3="NOTSET" group:2=1 ; 11 ; 22
ConvInteger ; 10 4 6 auto_pad:3="NOTSET" group:2=1
ConvTranspose ; 1 3 i0 auto_pad:3="NOTSET" group:2=1 ; 11 ; 22
Cos ; 7 1 i0 ; 22
Cosh ; 9 1 i0 ; 22
CumProd ; 26 2 i0 exclusive:2=0 reverse:2=0
CumSum ; 11 2 i0 exclusive:2=0 reverse:2=0 ; 14
DFT ; 17 2 i0 axis:2=1 inverse:2=0 onesided:2=0 ; 20 3 i0 inverse:2=0 onesided:2=0
DeformConv ; 19 5 i0 group:2=1 offset_group:2=1 ; 22
DepthToSpace ; 1 1 i0 ; 11 1 i0 mode:3="DCR" ; 13 ; 28
DequantizeLinear ; 10 3 1 ; 13 3 1 axis:2=1 ; 19h 3 i1 axis:2=1 ; 21h 3 i1 axis:2=1 block_size:2=0 ; 23h 3 ? axis:2=1 block_size:2=0 output_dtype:2=0 ; 24h ; 25h ; 28
Det ; 11 1 i0 ; 22
Div ; 1 2 i0 broadcast:2=0 ; 6 ; 7 2 i0 ; 13 ; 14
Dropout ; 1 1 i0,i0 is_test:2=0 ratio:1=0.5 ; 6 ; 7h 1 i0,i0 ratio:1=0.5 ; 10h 1 i0,9 ratio:1=0.5 ; 12 3 i0,9 ; 13 ; 22
DynamicQuantizeLinear ; 11 1 2,1,2
Einsum ; 12 1 i0 ; 28
Elu ; 1 1 i0 alpha:1=1.0 ; 6 ; 22
Equal ; 1 2 9 broadcast:2=0 ; 7 2 9 ; 11 ; 13 ; 19
Erf ; 9 1 i0 ; 13
Exp ; 1 1 i0 ; 6 ; 13
Expand ; 8h 2 i0 ; 13h
EyeLike ; 9 1 ? k:2=0 ; 22
Flatten ; 1h 1 i0 axis:2=1 ; 9h ; 11h ; 13h ; 21h ; 23h ; 24h ; 25h
Floor ; 1 1 i0 ; 6 ; 13
GRU ; 1 6 i0,i0 direction:3="foward" output_sequence:2=0 ; 3 6 i0,i0 direction:3="forward" linear_before_reset:2=0 output_sequence:2=0 ; 7 6 i0,i0 direction:3="forward" linear_before_reset:2=0 ; 14 6 i0,i0 direction:3="forward" layout:2=0 linear_before_reset:2=0 ; 22
Gather ; 1h 2 i0 axis:2=0 ; 11h ; 13h
GatherElements ; 11h 2 i0 axis:2=0 ; 13h
GatherND ; 11h 2 i0 ; 12h 2 i0 batch_dims:2=0 ; 13h
Gelu ; 20 1 i0 approximate:3="none"
Gemm ; 1 3 i0 alpha:1=1.0 beta:1=1.0 broadcast:2=0 transA:2=0 transB:2=0 ; 6 ; 7 3 i0 alpha:1=1.0 beta:1=1.0 transA:2=0 transB:2=0 ; 9 ; 11 ; 13
GlobalAveragePool ; 1 1 i0 ; 22
GlobalLpPool ; 1 1 i0 p:1=2.0 ; 2 1 i0 p:2=2 ; 22
GlobalMaxPool ; 1 1 i0 ; 22
Greater ; 1 2 9 broadcast:2=0 ; 7 2 9 ; 9 ; 13
GreaterOrEqual ; 12 2 9 ; 16
GridSample ; 16 2 i0 align_corners:2=0 mode:3="bilinear" padding_mode:3="zeros" ; 20 2 i0 align_corners:2=0 mode:3="linear" padding_mode:3="zeros" ; 22
GroupNormalization ; 21f 3 i0 epsilon:1=9.999999747378752e-06 stash_type:2=1
HammingWindow ; 17 1 ? output_datatype:2=1 periodic:2=1
HannWindow ; 17 1 ? output_datatype:2=1 periodic:2=1
HardSigmoid ; 1 1 i0 alpha:1=0.20000000298023224 beta:1=0.5 ; 6 ; 22
HardSwish ; 14f 1 i0 ; 22f
Hardmax ; 1 1 i0 axis:2=1 ; 11 ; 13 1 i0 axis:2=-1
Identity ; 1h 1 i0 ; 13h ; 14h ; 16h ; 19h ; 21h ; 23h ; 24h ; 25h
If ; 1h 1 ? ; 11h ; 13h ; 16h ; 19h ; 21h ; 23h ; 24h ; 25h
ImageDecoder ; 20 1 2 pixel_format:3="RGB"
InstanceNormalization ; 1 3 i0 epsilon:1=9.999999747378752e-06 ; 6 ; 22
IsInf ; 10 1 9 detect_negative:2=1 detect_positive:2=1 ; 20h
IsNaN ; 9h 1 9 ; 13h ; 20h
LRN ; 1 1 i0 alpha:1=9.999999747378752e-05 beta:1=0.75 bias:1=1.0 ; 13
LSTM ; 1 8 i0,i0,i0 direction:3="forward" input_forget:2=0 output_sequence:2=0 ; 7 8 i0,i0,i0 direction:3="forward" input_forget:2=0 ; 14 8 i0,i0,i0 direction:3="forward" input_forget:2=0 layout:2=0 ; 22
LayerNormalization ; 17h 3 i0,?,? axis:2=-1 epsilon:1=9.999999747378752e-06 stash_type:2=1
LeakyRelu ; 1 1 i0 alpha:1=0.009999999776482582 ; 6 ; 16
Less ; 1 2 9 broadcast:2=0 ; 7 2 9 ; 9 ; 13
LessOrEqual ; 12 2 9 ; 16
LinearAttention ; 27f 6 i0,i3 chunk_size:2=64 scale:1=0.0 update_rule:3="gated_delta"
Log ; 1 1 i0 ; 6 ; 13
LogSoftmax ; 1 1 i0 axis:2=1 ; 11 ; 13 1 i0 axis:2=-1
Loop ; 1h 3 ? ; 11h ; 13h ; 16h ; 19h ; 21h ; 23h ; 24h ; 25h
LpNormalization ; 1 1 i0 axis:2=-1 p:2=2 ; 22
LpPool ; 1 1 i0 auto_pad:3="NOTSET" p:1=2.0 ; 2 1 i0 auto_pad:3="NOTSET" p:2=2 ; 11 ; 18 1 i0 auto_pad:3="NOTSET" ceil_mode:2=0 p:2=2 ; 22
MatMul ; 1 2 i0 ; 9 ; 13
MatMulInteger ; 10 4 6
Max ; 1 1 i0 ; 6 ; 8 ; 12h ; 13h
MaxPool ; 1 1 i0 auto_pad:3="NOTSET" ; 8 1 i0,7 auto_pad:3="NOTSET" storage_order:2=0 ; 10 1 i0,7 auto_pad:3="NOTSET" ceil_mode:2=0 storage_order:2=0 ; 11 ; 12 ; 22
MaxRoiPool ; 1 2 i0 spatial_scale:1=1.0 ; 22
MaxUnpool ; 9 3 i0 ; 11 ; 22
Mean ; 1 1 i0 ; 6 ; 8 ; 13
MeanVarianceNormalization ; 9 1 i0 axes:7=[0,2,3] ; 13
MelWeightMatrix ; 17 5 ? output_datatype:2=1
Min ; 1 1 i0 ; 6 ; 8 ; 12h ; 13h
Mish ; 18f 1 i0 ; 22f
Mod ; 10h 2 i0 fmod:2=0 ; 13h ; 28h
Mul ; 1 2 i0 broadcast:2=0 ; 6 ; 7 2 i0 ; 13 ; 14
Multinomial ; 7 1 ? dtype:2=6 sample_size:2=1 ; 22
Neg ; 1 1 i0 ; 6 ; 13
NegativeLogLikelihoodLoss ; 12f 3 i0 reduction:3="mean" ; 13f ; 22f
NonMaxSuppression ; 10 5 7 center_point_box:2=0 ; 11
NonZero ; 9 1 7 ; 13
Not ; 1 1 9
OneHot ; 9 3 i2 axis:2=-1 ; 11 ; 28
Optional ; 15h 1 ? ; 28
OptionalGetElement ; 15h 1 ? ; 18h ; 28
OptionalHasElement ; 15 1 9 ; 18h ; 28
Or ; 1 2 9 broadcast:2=0 ; 7 2 9
PRelu ; 1 2 i0 ; 6 ; 7 ; 9 ; 16
Pad ; 1 1 i0 mode:3="constant" value:1=0.0 ; 2 ; 11 3 i0 mode:3="constant" ; 13 ; 18 4 i0 mode:3="constant" ; 19 ; 21 ; 23 ; 24 ; 25
Pow ; 1 2 i0 broadcast:2=0 ; 7 2 i0 ; 12 ; 13 ; 15
QLinearConv ; 10 9 i7 auto_pad:3="NOTSET" group:2=1
QLinearMatMul ; 10 8 i7 ; 21
QuantizeLinear ; 10 3 i2 ; 13 3 i2 axis:2=1 ; 19h 3 i2 axis:2=1 saturate:2=1 ; 21h 3 i2 axis:2=1 block_size:2=0 output_dtype:2=0 saturate:2=1 ; 23h 3 i2 axis:2=1 block_size:2=0 output_dtype:2=0 precision:2=0 saturate:2=1 ; 24h ; 25h ; 28
RMSNormalization ; 23h 2 i1 axis:2=-1 epsilon:1=9.999999747378752e-06 stash_type:2=1
RNN ; 1 6 i0,i0 activations:8=["Tanh","Tanh"] direction:3="forward" output_sequence:2=0 ; 7 6 i0,i0 activations:8=["Tanh","Tanh"] direction:3="forward" ; 14 6 i0,i0 activations:8=["Tanh","Tanh"] direction:3="forward" layout:2=0 ; 22
RandomNormal ; 1 0 ? dtype:2=1 mean:1=0.0 scale:1=1.0 ; 22
RandomNormalLike ; 1h 1 ? mean:1=0.0 scale:1=1.0 ; 22
RandomUniform ; 1 0 ? dtype:2=1 high:1=1.0 low:1=0.0 ; 22
RandomUniformLike ; 1h 1 ? high:1=1.0 low:1=0.0 ; 22
Range ; 11 3 i0 ; 27 3 i0 stash_type:2=1
Reciprocal ; 1 1 i0 ; 6 ; 13
ReduceL1 ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0
ReduceL2 ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0
ReduceLogSum ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0 ; 28f
ReduceLogSumExp ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0 ; 28f
ReduceMax ; 1 1 i0 keepdims:2=1 ; 11 ; 12 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0 ; 20
ReduceMean ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0
ReduceMin ; 1 1 i0 keepdims:2=1 ; 11 ; 12 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0 ; 20
ReduceProd ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0
ReduceSum ; 1 1 i0 keepdims:2=1 ; 11 ; 13 2 i0 keepdims:2=1 noop_with_empty_axes:2=0
ReduceSumSquare ; 1 1 i0 keepdims:2=1 ; 11 ; 13 ; 18 2 i0 keepdims:2=1 noop_with_empty_axes:2=0
RegexFullMatch ; 20 1 9
Relu ; 1 1 i0 ; 6 ; 13 ; 14
Reshape ; 1h 1 i0 ; 5h 2 i0 ; 13h ; 14h 2 i0 allowzero:2=0 ; 19h ; 21h ; 23h ; 24h ; 25h
Resize ; 10 2 i0 mode:3="nearest" ; 11 4 i0 coordinate_transformation_mode:3="half_pixel" cubic_coeff_a:1=-0.75 exclude_outside:2=0 extrapolation_value:1=0.0 mode:3="nearest" nearest_mode:3="round_prefer_floor" ; 13 ; 18 4 i0 antialias:2=0 coordinate_transformation_mode:3="half_pixel" cubic_coeff_a:1=-0.75 exclude_outside:2=0 extrapolation_value:1=0.0 keep_aspect_ratio_policy:3="stretch" mode:3="nearest" nearest_mode:3="round_prefer_floor" ; 19
ReverseSequence ; 10h 2 i0 batch_axis:2=1 time_axis:2=0 ; 28h
RoiAlign ; 10 3 i0 mode:3="avg" output_height:2=1 output_width:2=1 sampling_ratio:2=0 spatial_scale:1=1.0 ; 16 3 i0 coordinate_transformation_mode:3="half_pixel" mode:3="avg" output_height:2=1 output_width:2=1 sampling_ratio:2=0 spatial_scale:1=1.0 ; 22
RotaryEmbedding ; 23h 4 i0 interleaved:2=0 rotary_embedding_dim:2=0
Round ; 11h 1 i0 ; 22h
STFT ; 17 4 i0 onesided:2=1
Scan ; 8h 2 ? ; 9h 1 ? ; 11h ; 16h ; 19h ; 21h ; 23h ; 24h ; 25h
Scatter ; 9h 3 i0 axis:2=0
ScatterElements ; 11h 3 i0 axis:2=0 ; 13h ; 16h 3 i0 axis:2=0 reduction:3="none" ; 18h
ScatterND ; 11h 3 i0 ; 13h ; 16h 3 i0 reduction:3="none" ; 18h
Selu ; 1 1 i0 alpha:1=1.673200011253357 gamma:1=1.0506999492645264 ; 6 1 i0 alpha:1=1.6732631921768188 gamma:1=1.0507010221481323 ; 22
SequenceAt ; 11h 2 ?
SequenceConstruct ; 11h 1 ?
SequenceEmpty ; 11 0 ?
SequenceErase ; 11 2 i0
SequenceInsert ; 11 3 i0
SequenceLength ; 11 1 7
SequenceMap ; 17f 2 ?
Shape ; 1h 1 7 ; 13h ; 15h 1 7 start:2=0 ; 19h ; 21h ; 23h ; 24h ; 25h
Shrink ; 9h 1 i0 bias:1=0.0 lambd:1=0.5
Sigmoid ; 1 1 i0 ; 6 ; 13
Sign ; 9h 1 i0 ; 13h
Sin ; 7 1 i0 ; 22
Sinh ; 9 1 i0 ; 22
Size ; 1 1 7 ; 13 ; 19 ; 21 ; 23 ; 24 ; 25
Slice ; 1h 1 i0 ; 10h 5 i0 ; 11h ; 13h
Softmax ; 1 1 i0 axis:2=1 ; 11 ; 13 1 i0 axis:2=-1
SoftmaxCrossEntropyLoss ; 12f 3 i0,i0 reduction:3="mean" ; 13f
Softplus ; 1 1 i0 ; 22
Softsign ; 1 1 i0 ; 22
SpaceToDepth ; 1 1 i0 ; 13 ; 28 1 i0 mode:3="DCR"
Split ; 1 2 i0 ; 2h 1 i0 axis:2=0 ; 11h ; 13h 2 i0 axis:2=0 ; 18h
SplitToSequence ; 11h 2 ? axis:2=0 keepdims:2=1 ; 24h
Sqrt ; 1 1 i0 ; 6 ; 13
Squeeze ; 1h 1 i0 ; 11h ; 13h 2 i0 ; 21h ; 23h ; 24h ; 25h
StringConcat ; 20 2 8
StringNormalizer ; 10 1 8 case_change_action:3="NONE" is_case_sensitive:2=0
StringSplit ; 20 1 8,7
Sub ; 1 2 i0 broadcast:2=0 ; 6 ; 7 2 i0 ; 13 ; 14
Sum ; 1 1 i0 ; 6 ; 8 ; 13
SwiGLU ; 28f 2 i0 alpha:1=1.0
Swish ; 24f 1 i0 alpha:1=1.0
Tan ; 7 1 i0 ; 22
Tanh ; 1 1 i0 ; 6 ; 13
TensorScatter ; 24h 3 i0 axis:2=-2 mode:3="linear"
TfIdfVectorizer ; 9 1 1
ThresholdedRelu ; 10 1 i0 alpha:1=1.0 ; 22
Tile ; 1 3 i0 ; 6 2 i0 ; 13
TopK ; 1 1 i0,7 axis:2=-1 ; 10 2 i0,7 axis:2=-1 ; 11 2 i0,7 axis:2=-1 largest:2=1 sorted:2=1 ; 24
Transpose ; 1h 1 i0 ; 13h ; 21h ; 23h ; 24h ; 25h
Trilu ; 14 2 i0 upper:2=1
Unique ; 11 1 i0,7,7,7 sorted:2=1 ; 28
Unsqueeze ; 1h 1 i0 ; 11h ; 13h 2 i0 ; 21h ; 23h ; 24h ; 25h
Upsample ; 1 1 i0 mode:3="nearest" ; 7 ; 9 2 i0 mode:3="nearest"
Where ; 9 3 i1 ; 16
Xor ; 1 2 9 broadcast:2=0 ; 7 2 9
""",
    "ai.onnx.ml": """\
ArrayFeatureExtractor ; 1 2 i0
Binarizer ; 1 1 i0 threshold:1=0.0
CastMap ; 1 1 ? cast_to:3="TO_FLOAT" map_form:3="DENSE" max_map:2=1
CategoryMapper ; 1 1 ? default_int64:2=-1 default_string:3="_Unused"
DictVectorizer ; 1 1 ?
FeatureVectorizer ; 1 1 1
Imputer ; 1 1 i0 replaced_value_float:1=0.0 replaced_value_int64:2=0
LabelEncoder ; 1 1 ? default_int64:2=-1 default_string:3="_Unused" ; 2 1 ? default_float:1=-0.0 default_int64:2=-1 default_string:3="_Unused" ; 4
LinearClassifier ; 1 1 ?,1 multi_class:2=0 post_transform:3="NONE"
LinearRegressor ; 1 1 1 post_transform:3="NONE" targets:2=1
Normalizer ; 1 1 1 norm:3="MAX"
OneHotEncoder ; 1 1 1 zeros:2=1
SVMClassifier ; 1 1 ?,1 kernel_type:3="LINEAR" post_transform:3="NONE"
SVMRegressor ; 1 1 1 kernel_type:3="LINEAR" n_supports:2=0 one_class:2=0 post_transform:3="NONE"
Scaler ; 1 1 1
TreeEnsemble ; 5 1 i0 aggregate_function:2=1 post_transform:2=0
TreeEnsembleClassifier ; 1 1 ?,1 post_transform:3="NONE" ; 3
TreeEnsembleRegressor ; 1 1 1 aggregate_function:3="SUM" post_transform:3="NONE" ; 3
ZipMap ; 1 1 ?
""",
    "ai.onnx.preview": """\
FlexAttention ; 1f 3 i0
""",
    "ai.onnx.preview.training": """\
Adagrad ; 1 3 ? decay_factor:1=0.0 epsilon:1=9.999999974752427e-07 norm_coefficient:1=0.0
Adam ; 1 3 ? alpha:1=0.8999999761581421 beta:1=0.9990000128746033 epsilon:1=9.999999974752427e-07 norm_coefficient:1=0.0 norm_coefficient_post:1=0.0
Gradient ; 1 1 ?
Momentum ; 1 3 ?
""",
    "com.microsoft": """\
Attention ; 1 7 i0,i0
AttnLSTM ; 1 14 i0,i0,i0
BeamSearch ; 1 12 6,i5,i5
BiasAdd ; 1 3 i0
BiasDropout ; 1 5 i0,9
BiasGelu ; 1 2 i0
BiasSoftmax ; 1 2 i0
BiasSplitGelu ; 1 2 i0
BifurcationDetector ; 1 4 7,7
BitmaskBiasDropout ; 1 5 i0,12
BitmaskDropout ; 1 3 i0,12
BranchwiseRMSNorm ; 1h 2 i0
CDist ; 1 2 i0
CausalConvWithState ; 1 4 i0,i0,i0
ComplexMul ; 1 2 i0
ComplexMulConj ; 1 2 i0
ConvStateReplay ; 1 4 i0
ConvTransposeWithDynamicPads ; 1 4 i0
CropAndResize ; 1 4 i0
DecoderAttention ; 1 12 i0,i0,i0
DecoderMaskedMultiHeadAttention ; 1 11 i0,i0,i0,?
DecoderMaskedSelfAttention ; 1 9 i0,i0
DequantizeBFP ; 1 3 ?
DequantizeLinear ; 1 3 i1
DequantizeWithOrder ; 1 2 ?
DynamicQuantizeLSTM ; 1 12 1,1,1
DynamicQuantizeMatMul ; 1 5 1
DynamicSparseAttention ; 1 20 i5,i3,i3,6
DynamicTimeWarping ; 1 1 6
EPContext ; 1 1 ?
EmbedLayerNormalization ; 1 9 i2,6,i2
EngramGate ; 1h 6 i0,i0
ExpandDims ; 1h 2 i0
FastGelu ; 1 2 i0
FusedConv ; 1 4 i0
FusedGemm ; 1 3 i0
FusedMatMul ; 1 2 i0
FusedMatMulActivation ; 1 2 i0
GatedAdd ; 1h 4 i0
GatedDeltaNet ; 1h 11 i0,1,1
GatedDeltaNetStateReplay ; 1 4 1
GatedRMSNorm ; 1h 3 i0
GatedRelativePositionBias ; 1 7 i0
GatherBlockQuantized ; 1h 4 i2
GatherND ; 1h 2 i0
GatherPacked ; 1h 2 ?
Gelu ; 1 1 i0
GemmFastGelu ; 1 3 i0
GemmFloat8 ; 1 6 ?
GemmaRotaryEmbedding ; 1 5 10,10
GreedySearch ; 1 7 6
GridSample ; 1 2 ?
GroupNorm ; 1 3 i0
GroupQueryAttention ; 1h 17 i0,i3,i3,i0
HyperConnectionLowRankMix ; 1 7 i0,i0,i0
HyperConnectionPostMix ; 1h 4 i0
HyperConnectionPreMix ; 1h 2 i0
Inverse ; 1h 1 i0
Irfft ; 1 1 i0
IsAllFinite ; 1 1 9
LinearAttention ; 1 6 i0,i3
LinearAttentionGate ; 1h 4 i0,i0
LongformerAttention ; 1 7 i0
MRotaryEmbedding ; 1h 4 i0
Mamba2Verify ; 1 10 16,16,1,16,1
MatMulBlockQuantizedFp4Weight ; 1 6 i0
MatMulBlockQuantizedFp8Weight ; 1 5 i0
MatMulBnb4 ; 1 3 i0
MatMulFpQ4 ; 1 3 1
MatMulInteger16 ; 1 2 ?
MatMulIntegerToFloat ; 1 7 i2
MatMulNBits ; 1h 6 i0
MatMulNBitsMlp ; 1 9 i0,i0
MatMulNBitsQLoRA ; 1 7 i0
MatMulNBitsQkv ; 1 12 i0,i0,i0,i0
MatMulPacked ; 1 3 i0
MaxpoolWithMask ; 1 2 1
MoE ; 1 8 i0
MoEGroupRouter ; 1h 3 i0,1,1
MoEPacked ; 1 6 i0
MulInteger ; 1 4 6
MultiHeadAttention ; 1 10 i0,i0,i0,?
MurmurHash3 ; 1 1 ?
NGramHashMapping ; 1 7 i0,i0
NGramRepeatBlock ; 1 2 1
NhwcConv ; 1 3 i0
NhwcFusedConv ; 1 4 i0
NhwcMaxPool ; 1 1 i0
PackedAttention ; 1 6 i0
PackedMultiHeadAttention ; 1 7 i0
PackedSparseAttentionIndexer ; 1 22 6,6,i12,i0,i0,6,i0,6,6
PackedSparseAttentionIndexerMerge ; 1 7 6,6,6
Pad ; 1 3 i0
PagedAttention ; 1 17 i0,i3,i3
QAttention ; 1 9 i2,i2
QEmbedLayerNormalization ; 1 18 1,6
QGemm ; 1 9 ?
QLinearAdd ; 1 8 i0
QLinearAveragePool ; 1 5 i0
QLinearConcat ; 1 3 i1
QLinearConv ; 1 9 i7
QLinearGlobalAveragePool ; 1 5 i0
QLinearLeakyRelu ; 1 5 i0
QLinearMul ; 1 8 i0
QLinearReduceMean ; 1 5 i0
QLinearSigmoid ; 1 5 i0
QLinearSoftmax ; 1 5 i0
QLinearWhere ; 1 9 i1
QMoE ; 1h 21 i0
QOrderedAttention ; 1 20 3
QOrderedGelu ; 1 3 3
QOrderedLayerNormalization ; 1 5 3
QOrderedLongformerAttention ; 1 14 3
QOrderedMatMul ; 1 8 3
QuantizeBFP ; 1 1 2,7,7
QuantizeLinear ; 1 3 i2
QuantizeWithOrder ; 1 2 3
QuickGelu ; 1 1 i0
RMSNormRotary ; 1 6 ?,1
Range ; 1 3 i0
ReduceSumInteger ; 1 1 ?
RelativePositionBias ; 1 3 i0
RemovePadding ; 1 2 i0,6,6,6
RestorePadding ; 1 2 i0
Rfft ; 1 1 i0
RotaryEmbedding ; 1h 4 i0
RouterGateUpProj ; 1 2 i0,i0
SampleOp ; 1 1 i0
Sampling ; 1 9 6,1
ScaledSiLU ; 1h 2 i0
SkipGroupNorm ; 1 5 i0,i0
SkipLayerNormalization ; 1h 5 i0,1,1,i0
SkipSimplifiedLayerNormalization ; 1h 4 i0,1,1,i0
Snpe ; 1 1 i0
SparseAttention ; 1h 11 i0,i0,i0
SparseAttentionIndexer ; 1 14 6,i0,i0
SparsePagedAttention ; 1 22 i0,i3,i3
SparseToDenseMatMul ; 1 2 i1
SpeculativePrefixCommit ; 1 7 6,7,7
SwiGLU ; 1 2 i0
Tokenizer ; 1 1 8
TorchEmbedding ; 1 4 i0
TransposeMatMul ; 1 2 i0
Trilu ; 1 2 i0
UnfoldTensor ; 1h 1 i0
Unique ; 1 1 i0,7,7
VarlenCausalConvWithState ; 1h 8 i0,i0,i0
VarlenNGramHashMapping ; 1 10 i0,i0,6,i0
WhisperBeamSearch ; 1 15 6,i5,i5,1,i5
WordConvEmbedding ; 1 4 1
""",
    "com.microsoft.nchwc": """\
AveragePool ; 1 1 1
Conv ; 1 4 1
GlobalAveragePool ; 1 1 1
GlobalMaxPool ; 1 1 1
MaxPool ; 1 1 1
ReorderInput ; 1 1 1
ReorderOutput ; 1 1 1
Upsample ; 1 1 1
""",
}
