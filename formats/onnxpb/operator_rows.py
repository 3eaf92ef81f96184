"""ONNX's operators in all versions, as text: `operator_sets.py` reads the rows that a model needs.

Generated from onnx.defs by `python schemas/generate.py`; do not edit.

A line is an operator, and its forms from the oldest on, each as `version inputs outputs attributes`; a form holds
until the next one. Inputs and outputs are the fewest, and a letter for each: `S` single, `O` optional, `V` any
number. Attributes have the number of their type, and `!` if they are required. The form of a deprecated operator is
`version -`.
"""
# ruff: noqa: E501 - a row is a line

from __future__ import annotations

from typing import Final

NEWEST: Final = {"ai.onnx": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}
ROWS: Final = {
    "ai.onnx": """\
Abs ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
Acos ; 7 1S 1S
Acosh ; 9 1S 1S
Add ; 1 2SS 1S axis:2 broadcast:2 consumed_inputs:7 ; 6 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
AffineGrid ; 20 2SS 1S align_corners:2
And ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
ArgMax ; 1 1S 1S axis:2 keepdims:2 ; 12 1S 1S axis:2 keepdims:2 select_last_index:2
ArgMin ; 1 1S 1S axis:2 keepdims:2 ; 12 1S 1S axis:2 keepdims:2 select_last_index:2
Asin ; 7 1S 1S
Asinh ; 9 1S 1S
Atan ; 7 1S 1S
Atanh ; 9 1S 1S
Attention ; 23 3SSSOOO 1SOOO is_causal:2 kv_num_heads:2 q_num_heads:2 qk_matmul_output_mode:2 scale:1 softcap:1 softmax_precision:2 ; 24 3SSSOOOO 1SOOO is_causal:2 kv_num_heads:2 q_num_heads:2 qk_matmul_output_mode:2 scale:1 softcap:1 softmax_precision:2 ; 25 3SSSOOOO 1SOOO is_causal:2 kv_num_heads:2 left_window_size:2 q_num_heads:2 qk_matmul_output_mode:2 right_window_size:2 scale:1 softcap:1 softmax_precision:2
AveragePool ; 1 1S 1S auto_pad:3 kernel_shape:7! pads:7 strides:7 ; 7 1S 1S auto_pad:3 count_include_pad:2 kernel_shape:7! pads:7 strides:7 ; 10 1S 1S auto_pad:3 ceil_mode:2 count_include_pad:2 kernel_shape:7! pads:7 strides:7 ; 19 1S 1S auto_pad:3 ceil_mode:2 count_include_pad:2 dilations:7 kernel_shape:7! pads:7 strides:7
BatchNormalization ; 1 5SSSSS 1SOOOO consumed_inputs:7! epsilon:1 is_test:2 momentum:1 spatial:2 ; 6 5SSSSS 1SOOOO epsilon:1 is_test:2 momentum:1 spatial:2 ; 7 5SSSSS 1SOOOO epsilon:1 momentum:1 spatial:2 ; 9 5SSSSS 1SOOOO epsilon:1 momentum:1 ; 14 5SSSSS 1SOO epsilon:1 momentum:1 training_mode:2
Bernoulli ; 15 1S 1S dtype:2 seed:1
BitCast ; 26 1S 1S to:2!
BitShift ; 11 2SS 1S direction:3!
BitwiseAnd ; 18 2SS 1S
BitwiseNot ; 18 1S 1S
BitwiseOr ; 18 2SS 1S
BitwiseXor ; 18 2SS 1S
BlackmanWindow ; 17 1S 1S output_datatype:2 periodic:2
Cast ; 1 1S 1S to:3! ; 6 1S 1S to:2! ; 19 1S 1S saturate:2 to:2! ; 24 1S 1S round_mode:3 saturate:2 to:2!
CastLike ; 15 2SS 1S ; 19 2SS 1S saturate:2 ; 24 2SS 1S round_mode:3 saturate:2
CausalConvWithState ; 27 2SSOO 2SS activation:3
Ceil ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
Celu ; 12 1S 1S alpha:1
CenterCropPad ; 18 2SS 1S axes:7
Clip ; 1 1S 1S consumed_inputs:7 max:1 min:1 ; 6 1S 1S max:1 min:1 ; 11 1SOO 1S
Col2Im ; 18 3SSS 1S dilations:7 pads:7 strides:7
Compress ; 9 2SS 1S axis:2
Concat ; 1 1V 1S axis:2 ; 4 1V 1S axis:2!
ConcatFromSequence ; 11 1S 1S axis:2! new_axis:2
Constant ; 1 0 1S value:4! ; 11 0 1S sparse_value:11 value:4 ; 12 0 1S sparse_value:11 value:4 value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8
ConstantOfShape ; 9 1S 1S value:4
Conv ; 1 2SSO 1S auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7 strides:7
ConvInteger ; 10 2SSOO 1S auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7 strides:7
ConvTranspose ; 1 2SSO 1S auto_pad:3 dilations:7 group:2 kernel_shape:7 output_padding:7 output_shape:7 pads:7 strides:7
Cos ; 7 1S 1S
Cosh ; 9 1S 1S
CumProd ; 26 2SS 1S exclusive:2 reverse:2
CumSum ; 11 2SS 1S exclusive:2 reverse:2
DFT ; 17 1SO 1S axis:2 inverse:2 onesided:2 ; 20 1SOO 1S inverse:2 onesided:2
DeformConv ; 19 3SSSOO 1S dilations:7 group:2 kernel_shape:7 offset_group:2 pads:7 strides:7
DepthToSpace ; 1 1S 1S blocksize:2! ; 11 1S 1S blocksize:2! mode:3
DequantizeLinear ; 10 2SSO 1S ; 13 2SSO 1S axis:2 ; 21 2SSO 1S axis:2 block_size:2 ; 23 2SSO 1S axis:2 block_size:2 output_dtype:2
Det ; 11 1S 1S
Div ; 1 2SS 1S axis:2 broadcast:2 consumed_inputs:7 ; 6 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
Dropout ; 1 1S 1SO consumed_inputs:7 is_test:2 ratio:1 ; 6 1S 1SO is_test:2 ratio:1 ; 7 1S 1SO ratio:1 ; 12 1SOO 1SO seed:2
DynamicQuantizeLinear ; 11 1S 3SSS
Einsum ; 12 1V 1S equation:3!
Elu ; 1 1S 1S alpha:1 consumed_inputs:7 ; 6 1S 1S alpha:1
Equal ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
Erf ; 9 1S 1S
Exp ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
Expand ; 8 2SS 1S
EyeLike ; 9 1S 1S dtype:2 k:2
Flatten ; 1 1S 1S axis:2
Floor ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
GRU ; 1 3SSSOOO 2OS activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 output_sequence:2 ; 3 3SSSOOO 0OO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 linear_before_reset:2 output_sequence:2 ; 7 3SSSOOO 0OO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 linear_before_reset:2 ; 14 3SSSOOO 0OO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 layout:2 linear_before_reset:2
Gather ; 1 2SS 1S axis:2
GatherElements ; 11 2SS 1S axis:2
GatherND ; 11 2SS 1S ; 12 2SS 1S batch_dims:2
Gelu ; 20 1S 1S approximate:3
Gemm ; 1 3SSS 1S alpha:1 beta:1 broadcast:2 transA:2 transB:2 ; 7 3SSS 1S alpha:1 beta:1 transA:2 transB:2 ; 11 2SSO 1S alpha:1 beta:1 transA:2 transB:2
GlobalAveragePool ; 1 1S 1S
GlobalLpPool ; 1 1S 1S p:1 ; 2 1S 1S p:2
GlobalMaxPool ; 1 1S 1S
Greater ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
GreaterOrEqual ; 12 2SS 1S
GridSample ; 16 2SS 1S align_corners:2 mode:3 padding_mode:3
GroupNormalization ; 18 - ; 21 3SSS 1S epsilon:1 num_groups:2! stash_type:2
HammingWindow ; 17 1S 1S output_datatype:2 periodic:2
HannWindow ; 17 1S 1S output_datatype:2 periodic:2
HardSigmoid ; 1 1S 1S alpha:1 beta:1 consumed_inputs:7 ; 6 1S 1S alpha:1 beta:1
HardSwish ; 14 1S 1S
Hardmax ; 1 1S 1S axis:2
Identity ; 1 1S 1S
If ; 1 1S 1V else_branch:5! then_branch:5!
ImageDecoder ; 20 1S 1S pixel_format:3
InstanceNormalization ; 1 3SSS 1S consumed_inputs:7 epsilon:1 ; 6 3SSS 1S epsilon:1
IsInf ; 10 1S 1S detect_negative:2 detect_positive:2
IsNaN ; 9 1S 1S
LRN ; 1 1S 1S alpha:1 beta:1 bias:1 size:2!
LSTM ; 1 3SSSOOOOO 0OOO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 input_forget:2 output_sequence:2 ; 7 3SSSOOOOO 0OOO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 input_forget:2 ; 14 3SSSOOOOO 0OOO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 input_forget:2 layout:2
LayerNormalization ; 17 2SSO 1SOO axis:2 epsilon:1 stash_type:2
LeakyRelu ; 1 1S 1S alpha:1 consumed_inputs:7 ; 6 1S 1S alpha:1
Less ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
LessOrEqual ; 12 2SS 1S
LinearAttention ; 27 3SSSOOO 2SS chunk_size:2 kv_num_heads:2! q_num_heads:2! scale:1 update_rule:3
Log ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
LogSoftmax ; 1 1S 1S axis:2
Loop ; 1 3OOV 1V body:5! ; 11 2OOV 1V body:5!
LpNormalization ; 1 1S 1S axis:2 p:2
LpPool ; 1 1S 1S auto_pad:3 kernel_shape:7 p:1 pads:7 strides:7 ; 2 1S 1S auto_pad:3 kernel_shape:7! p:2 pads:7 strides:7 ; 18 1S 1S auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! p:2 pads:7 strides:7
MatMul ; 1 2SS 1S
MatMulInteger ; 10 2SSOO 1S
Max ; 1 1V 1S consumed_inputs:7 ; 6 1V 1S
MaxPool ; 1 1S 1S auto_pad:3 kernel_shape:7! pads:7 strides:7 ; 8 1S 1SO auto_pad:3 kernel_shape:7! pads:7 storage_order:2 strides:7 ; 10 1S 1SO auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! pads:7 storage_order:2 strides:7
MaxRoiPool ; 1 2SS 1S pooled_shape:7! spatial_scale:1
MaxUnpool ; 9 2SSO 1S kernel_shape:7! pads:7 strides:7
Mean ; 1 1V 1S consumed_inputs:7 ; 6 1V 1S
MeanVarianceNormalization ; 9 1S 1S axes:7
MelWeightMatrix ; 17 5SSSSS 1S output_datatype:2
Min ; 1 1V 1S consumed_inputs:7 ; 6 1V 1S
Mish ; 18 1S 1S
Mod ; 10 2SS 1S fmod:2
Mul ; 1 2SS 1S axis:2 broadcast:2 consumed_inputs:7 ; 6 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
Multinomial ; 7 1S 1S dtype:2 sample_size:2 seed:1
Neg ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
NegativeLogLikelihoodLoss ; 12 2SSO 1S ignore_index:2 reduction:3
NonMaxSuppression ; 10 2SSOOO 1S center_point_box:2
NonZero ; 9 1S 1S
Not ; 1 1S 1S
OneHot ; 9 3SSS 1S axis:2
Optional ; 15 0O 1S type:13
OptionalGetElement ; 15 1S 1S
OptionalHasElement ; 15 1S 1S ; 18 0O 1S
Or ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
PRelu ; 1 2SS 1S consumed_inputs:7 ; 6 2SS 1S
Pad ; 1 1S 1S mode:3 paddings:7! value:1 ; 2 1S 1S mode:3 pads:7! value:1 ; 11 2SSO 1S mode:3 ; 18 2SSOO 1S mode:3
Pow ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
QLinearConv ; 10 8SSSSSSSSO 1S auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7 strides:7
QLinearMatMul ; 10 8SSSSSSSS 1S
QuantizeLinear ; 10 2SSO 1S ; 13 2SSO 1S axis:2 ; 19 2SSO 1S axis:2 saturate:2 ; 21 2SSO 1S axis:2 block_size:2 output_dtype:2 saturate:2 ; 23 2SSO 1S axis:2 block_size:2 output_dtype:2 precision:2 saturate:2
RMSNormalization ; 23 2SS 1S axis:2 epsilon:1 stash_type:2
RNN ; 1 3SSSOOO 0OO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 output_sequence:2 ; 7 3SSSOOO 0OO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 ; 14 3SSSOOO 0OO activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 layout:2
RandomNormal ; 1 0 1S dtype:2 mean:1 scale:1 seed:1 shape:7!
RandomNormalLike ; 1 1S 1S dtype:2 mean:1 scale:1 seed:1
RandomUniform ; 1 0 1S dtype:2 high:1 low:1 seed:1 shape:7!
RandomUniformLike ; 1 1S 1S dtype:2 high:1 low:1 seed:1
Range ; 11 3SSS 1S ; 27 3SSS 1S stash_type:2
Reciprocal ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
ReduceL1 ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceL2 ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceLogSum ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceLogSumExp ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceMax ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceMean ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceMin ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceProd ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceSum ; 1 1S 1S axes:7 keepdims:2 ; 13 1SO 1S keepdims:2 noop_with_empty_axes:2
ReduceSumSquare ; 1 1S 1S axes:7 keepdims:2 ; 18 1SO 1S keepdims:2 noop_with_empty_axes:2
RegexFullMatch ; 20 1S 1S pattern:3
Relu ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
Reshape ; 1 1S 1S consumed_inputs:7 shape:7 ; 5 2SS 1S ; 14 2SS 1S allowzero:2
Resize ; 10 2SS 1S mode:3 ; 11 3SSSO 1S coordinate_transformation_mode:3 cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1 mode:3 nearest_mode:3 ; 13 1SOOO 1S coordinate_transformation_mode:3 cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1 mode:3 nearest_mode:3 ; 18 1SOOO 1S antialias:2 axes:7 coordinate_transformation_mode:3 cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1 keep_aspect_ratio_policy:3 mode:3 nearest_mode:3
ReverseSequence ; 10 2SS 1S batch_axis:2 time_axis:2
RoiAlign ; 10 3SSS 1S mode:3 output_height:2 output_width:2 sampling_ratio:2 spatial_scale:1 ; 16 3SSS 1S coordinate_transformation_mode:3 mode:3 output_height:2 output_width:2 sampling_ratio:2 spatial_scale:1
RotaryEmbedding ; 23 3SSSO 1S interleaved:2 num_heads:2 rotary_embedding_dim:2
Round ; 11 1S 1S
STFT ; 17 2SSOO 1S onesided:2
Scan ; 8 2OV 1V body:5! directions:7 num_scan_inputs:2! ; 9 1V 1V body:5! num_scan_inputs:2! scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7
Scatter ; 9 3SSS 1S axis:2 ; 11 -
ScatterElements ; 11 3SSS 1S axis:2 ; 16 3SSS 1S axis:2 reduction:3
ScatterND ; 11 3SSS 1S ; 16 3SSS 1S reduction:3
Selu ; 1 1S 1S alpha:1 consumed_inputs:7 gamma:1 ; 6 1S 1S alpha:1 gamma:1
SequenceAt ; 11 2SS 1S
SequenceConstruct ; 11 1V 1S
SequenceEmpty ; 11 0 1S dtype:2
SequenceErase ; 11 1SO 1S
SequenceInsert ; 11 2SSO 1S
SequenceLength ; 11 1S 1S
SequenceMap ; 17 1SV 1V body:5!
Shape ; 1 1S 1S ; 15 1S 1S end:2 start:2
Shrink ; 9 1S 1S bias:1 lambd:1
Sigmoid ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
Sign ; 9 1S 1S
Sin ; 7 1S 1S
Sinh ; 9 1S 1S
Size ; 1 1S 1S
Slice ; 1 1S 1S axes:7 ends:7! starts:7! ; 10 3SSSOO 1S
Softmax ; 1 1S 1S axis:2
SoftmaxCrossEntropyLoss ; 12 2SSO 1SO ignore_index:2 reduction:3
Softplus ; 1 1S 1S
Softsign ; 1 1S 1S
SpaceToDepth ; 1 1S 1S blocksize:2! ; 28 1S 1S blocksize:2! mode:3
Split ; 1 1SO 1V axis:2 split:7 ; 2 1S 1V axis:2 split:7 ; 13 1SO 1V axis:2 ; 18 1SO 1V axis:2 num_outputs:2
SplitToSequence ; 11 1SO 1S axis:2 keepdims:2
Sqrt ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
Squeeze ; 1 1S 1S axes:7 ; 13 1SO 1S
StringConcat ; 20 2SS 1S
StringNormalizer ; 10 1S 1S case_change_action:3 is_case_sensitive:2 locale:3 stopwords:8
StringSplit ; 20 1S 2SS delimiter:3 maxsplit:2
Sub ; 1 2SS 1S axis:2 broadcast:2 consumed_inputs:7 ; 6 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
Sum ; 1 1V 1S consumed_inputs:7 ; 6 1V 1S
SwiGLU ; 28 2SS 1S alpha:1
Swish ; 24 1S 1S alpha:1
Tan ; 7 1S 1S
Tanh ; 1 1S 1S consumed_inputs:7 ; 6 1S 1S
TensorScatter ; 24 2SSO 1S axis:2 mode:3
TfIdfVectorizer ; 9 1S 1S max_gram_length:2! max_skip_count:2! min_gram_length:2! mode:3! ngram_counts:7! ngram_indexes:7! pool_int64s:7 pool_strings:8 weights:6
ThresholdedRelu ; 10 1S 1S alpha:1
Tile ; 1 3SSS 1S ; 6 2SS 1S
TopK ; 1 1S 2SS axis:2 k:2! ; 10 2SS 2SS axis:2 ; 11 2SS 2SS axis:2 largest:2 sorted:2
Transpose ; 1 1S 1S perm:7
Trilu ; 14 1SO 1S upper:2
Unique ; 11 1S 1SOOO axis:2 sorted:2
Unsqueeze ; 1 1S 1S axes:7! ; 13 2SS 1S
Upsample ; 1 1S 1S height_scale:1! mode:3 width_scale:1! ; 7 1S 1S mode:3 scales:6! ; 9 2SS 1S mode:3 ; 10 -
Where ; 9 3SSS 1S
Xor ; 1 2SS 1S axis:2 broadcast:2 ; 7 2SS 1S
""",
    "ai.onnx.ml": """\
ArrayFeatureExtractor ; 1 2SS 1S
Binarizer ; 1 1S 1S threshold:1
CastMap ; 1 1S 1S cast_to:3 map_form:3 max_map:2
CategoryMapper ; 1 1S 1S cats_int64s:7 cats_strings:8 default_int64:2 default_string:3
DictVectorizer ; 1 1S 1S int64_vocabulary:7 string_vocabulary:8
FeatureVectorizer ; 1 1V 1S inputdimensions:7
Imputer ; 1 1S 1S imputed_value_floats:6 imputed_value_int64s:7 replaced_value_float:1 replaced_value_int64:2
LabelEncoder ; 1 1S 1S classes_strings:8 default_int64:2 default_string:3 ; 2 1S 1S default_float:1 default_int64:2 default_string:3 keys_floats:6 keys_int64s:7 keys_strings:8 values_floats:6 values_int64s:7 values_strings:8 ; 4 1S 1S default_float:1 default_int64:2 default_string:3 default_tensor:4 keys_floats:6 keys_int64s:7 keys_strings:8 keys_tensor:4 values_floats:6 values_int64s:7 values_strings:8 values_tensor:4
LinearClassifier ; 1 1S 2SS classlabels_ints:7 classlabels_strings:8 coefficients:6! intercepts:6 multi_class:2 post_transform:3
LinearRegressor ; 1 1S 1S coefficients:6 intercepts:6 post_transform:3 targets:2
Normalizer ; 1 1S 1S norm:3
OneHotEncoder ; 1 1S 1S cats_int64s:7 cats_strings:8 zeros:2
SVMClassifier ; 1 1S 2SS classlabels_ints:7 classlabels_strings:8 coefficients:6 kernel_params:6 kernel_type:3 post_transform:3 prob_a:6 prob_b:6 rho:6 support_vectors:6 vectors_per_class:7
SVMRegressor ; 1 1S 1S coefficients:6 kernel_params:6 kernel_type:3 n_supports:2 one_class:2 post_transform:3 rho:6 support_vectors:6
Scaler ; 1 1S 1S offset:6 scale:6
TreeEnsemble ; 5 1S 1S aggregate_function:2 leaf_targetids:7! leaf_weights:4! membership_values:4 n_targets:2 nodes_falseleafs:7! nodes_falsenodeids:7! nodes_featureids:7! nodes_hitrates:4 nodes_missing_value_tracks_true:7 nodes_modes:4! nodes_splits:4! nodes_trueleafs:7! nodes_truenodeids:7! post_transform:2 tree_roots:7!
TreeEnsembleClassifier ; 1 1S 2SS base_values:6 class_ids:7 class_nodeids:7 class_treeids:7 class_weights:6 classlabels_int64s:7 classlabels_strings:8 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6 nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 post_transform:3 ; 3 1S 2SS base_values:6 base_values_as_tensor:4 class_ids:7 class_nodeids:7 class_treeids:7 class_weights:6 class_weights_as_tensor:4 classlabels_int64s:7 classlabels_strings:8 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6 nodes_hitrates_as_tensor:4 nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 nodes_values_as_tensor:4 post_transform:3 ; 5 -
TreeEnsembleRegressor ; 1 1S 1S aggregate_function:3 base_values:6 n_targets:2 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6 nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 post_transform:3 target_ids:7 target_nodeids:7 target_treeids:7 target_weights:6 ; 3 1S 1S aggregate_function:3 base_values:6 base_values_as_tensor:4 n_targets:2 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6 nodes_hitrates_as_tensor:4 nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 nodes_values_as_tensor:4 post_transform:3 target_ids:7 target_nodeids:7 target_treeids:7 target_weights:6 target_weights_as_tensor:4 ; 5 -
ZipMap ; 1 1S 1S classlabels_int64s:7 classlabels_strings:8
""",
    "ai.onnx.preview": """\
FlexAttention ; 1 3SSS 1S prob_mod:5 scale:1 score_mod:5 softmax_precision:2
""",
    "ai.onnx.preview.training": """\
Adagrad ; 1 3SSV 1V decay_factor:1 epsilon:1 norm_coefficient:1
Adam ; 1 3SSV 1V alpha:1 beta:1 epsilon:1 norm_coefficient:1 norm_coefficient_post:1
Gradient ; 1 1V 1V xs:8! y:3! zs:8
Momentum ; 1 3SSV 1V alpha:1! beta:1! mode:3! norm_coefficient:1!
""",
}
