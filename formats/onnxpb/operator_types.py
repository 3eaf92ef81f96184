"""The types of ONNX's operators in all versions, as text: `operator_sets.py` reads what a model needs.

Generated from onnx.defs by `python schemas/generate.py`; do not edit.

A line of `ROWS` is an operator, and its versions from the oldest on, each as `version inputs outputs name=set`. Each
input and output has its type, or the name of the types that it may have, which are a line of `SETS`: its number, from 0
on, is behind the name. A `*` follows where the inputs of one parameter may have several types. A set has the types of
elements of its tensors, and other types in full. What equals the version before is only its number. A deprecated
operator is `version !`.
"""
# ruff: noqa: E501 - a row is a line

from __future__ import annotations

from typing import Final

SETS: Final = """\
double float float16
bfloat16 double float float16
bool
bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8
int64
bfloat16 bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8
int32 int64
double float float16 int32 int64 uint32 uint64
double float float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8
bfloat16 double float float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8
bfloat16 double float float16 int32 int64 uint32 uint64
int32
double float int32 int64
bfloat16 float float16
int8 uint8
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8
bfloat16 bool complex128 complex64 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8
seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool double float float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8
bool double float float16 int16 int32 int64 int8 uint16 uint32 uint64 uint8
int64 string
bfloat16 float float16 int32
double float
bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8 seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int64 int8 string uint16 uint32 uint64 uint8
bfloat16 bool double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8
int16 int32 int64 int8 uint16 uint32 uint64 uint8
bfloat16 bool double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int64 int8 string uint16 uint32 uint64 uint8
bfloat16 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz
bfloat16 double float float16 int32 int64 int8 uint32 uint64 uint8
float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int8 uint8
string
bfloat16 float float16 float8e8m0
bfloat16 float float16 float8e8m0 int32
float
float int64 string
optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8))
uint8
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float6e2m3 float6e3m2 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(float4e2m1))) optional(seq(tensor(float6e2m3))) optional(seq(tensor(float6e3m2))) optional(seq(tensor(float8e4m3fn))) optional(seq(tensor(float8e4m3fnuz))) optional(seq(tensor(float8e5m2))) optional(seq(tensor(float8e5m2fnuz))) optional(seq(tensor(float8e8m0))) optional(seq(tensor(int16))) optional(seq(tensor(int2))) optional(seq(tensor(int32))) optional(seq(tensor(int4))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint2))) optional(seq(tensor(uint32))) optional(seq(tensor(uint4))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float4e2m1)) optional(tensor(float6e2m3)) optional(tensor(float6e3m2)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(float8e8m0)) optional(tensor(int16)) optional(tensor(int2)) optional(tensor(int32)) optional(tensor(int4)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint2)) optional(tensor(uint32)) optional(tensor(uint4)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float4e2m1)) seq(tensor(float6e2m3)) seq(tensor(float6e3m2)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(float8e8m0)) seq(tensor(int16)) seq(tensor(int2)) seq(tensor(int32)) seq(tensor(int4)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint2)) seq(tensor(uint32)) seq(tensor(uint4)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float6e2m3 float6e3m2 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8 seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float4e2m1)) seq(tensor(float6e2m3)) seq(tensor(float6e3m2)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(float8e8m0)) seq(tensor(int16)) seq(tensor(int2)) seq(tensor(int32)) seq(tensor(int4)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint2)) seq(tensor(uint32)) seq(tensor(uint4)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float4e2m1)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(float8e8m0)) optional(tensor(int16)) optional(tensor(int2)) optional(tensor(int32)) optional(tensor(int4)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint2)) optional(tensor(uint32)) optional(tensor(uint4)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float4e2m1)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(float8e8m0)) seq(tensor(int16)) seq(tensor(int2)) seq(tensor(int32)) seq(tensor(int4)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint2)) seq(tensor(uint32)) seq(tensor(uint4)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 uint16 uint2 uint32 uint4 uint64 uint8
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float4e2m1)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(float8e8m0)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int4)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint4)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float4e2m1)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(float8e8m0)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int4)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint4)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float4e2m1)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int4)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint4)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float4e2m1)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int4)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint4)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int4)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint4)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int4)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint4)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int64 int8 string uint16 uint32 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(float8e4m3fn)) seq(tensor(float8e4m3fnuz)) seq(tensor(float8e5m2)) seq(tensor(float8e5m2fnuz)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8 optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool double float float16 float4e2m1 float6e2m3 float6e3m2 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 int32 int64 int8 uint32 uint64 uint8
bfloat16 double float float16 int16 int32 int64 int8
bfloat16 double float float16 int32 int64
bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bool double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8
bool int32 int64
double float float16 int32 int64 int8 uint32 uint64 uint8
double float int16 int32 int64 string
double float int32 int64 string
float int32
float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int8 uint16 uint4 uint8
float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int4 int8 uint16 uint4 uint8
int32 int8 uint8
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int64 int8 string uint16 uint32 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8 optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(int16))) optional(seq(tensor(int32))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint32))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(int16)) optional(tensor(int32)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint32)) optional(tensor(uint64)) optional(tensor(uint8)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool complex128 complex64 double float float16 int16 int32 int64 int8 string uint16 uint32 uint64 uint8 seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
bfloat16 bool double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int2 int32 int4 int64 int8 uint16 uint2 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 int16 int32 int4 int64 int8 uint16 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 uint16 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int64 int8 uint16 uint32 uint4 uint64 uint8
bfloat16 bool double float float16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int64 int8 uint16 uint32 uint64 uint8
bfloat16 double float float16 int16 int32 int64
bfloat16 double float float16 int8 uint8
bfloat16 float
bool double float float16 int32 int64
double float float16 int16 int32 int64 int8
double float float16 int32 int64
double float float16 int8 uint8
double float int16 int32 int64
double float int32 int64 uint32 uint64
double float int64 string
float4e2m1 float6e2m3 float6e3m2 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int2 int32 int4 int8 uint16 uint2 uint4 uint8
float4e2m1 float6e2m3 float6e3m2 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int2 int4 int8 uint16 uint2 uint4 uint8
float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int2 int32 int4 int8 uint16 uint2 uint4 uint8
float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int2 int4 int8 uint16 uint2 uint4 uint8
float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int32 int4 int8 uint16 uint4 uint8
float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int16 int4 int8 uint16 uint4 uint8
float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz int32 int8 uint8
int32 int64 string
map(int64,double) map(int64,float) map(int64,string) map(string,double) map(string,float) map(string,int64)
map(int64,float) map(int64,string)
optional(seq(tensor(bfloat16))) optional(seq(tensor(bool))) optional(seq(tensor(complex128))) optional(seq(tensor(complex64))) optional(seq(tensor(double))) optional(seq(tensor(float))) optional(seq(tensor(float16))) optional(seq(tensor(float4e2m1))) optional(seq(tensor(float6e2m3))) optional(seq(tensor(float6e3m2))) optional(seq(tensor(float8e4m3fn))) optional(seq(tensor(float8e4m3fnuz))) optional(seq(tensor(float8e5m2))) optional(seq(tensor(float8e5m2fnuz))) optional(seq(tensor(float8e8m0))) optional(seq(tensor(int16))) optional(seq(tensor(int2))) optional(seq(tensor(int32))) optional(seq(tensor(int4))) optional(seq(tensor(int64))) optional(seq(tensor(int8))) optional(seq(tensor(string))) optional(seq(tensor(uint16))) optional(seq(tensor(uint2))) optional(seq(tensor(uint32))) optional(seq(tensor(uint4))) optional(seq(tensor(uint64))) optional(seq(tensor(uint8))) optional(tensor(bfloat16)) optional(tensor(bool)) optional(tensor(complex128)) optional(tensor(complex64)) optional(tensor(double)) optional(tensor(float)) optional(tensor(float16)) optional(tensor(float4e2m1)) optional(tensor(float6e2m3)) optional(tensor(float6e3m2)) optional(tensor(float8e4m3fn)) optional(tensor(float8e4m3fnuz)) optional(tensor(float8e5m2)) optional(tensor(float8e5m2fnuz)) optional(tensor(float8e8m0)) optional(tensor(int16)) optional(tensor(int2)) optional(tensor(int32)) optional(tensor(int4)) optional(tensor(int64)) optional(tensor(int8)) optional(tensor(string)) optional(tensor(uint16)) optional(tensor(uint2)) optional(tensor(uint32)) optional(tensor(uint4)) optional(tensor(uint64)) optional(tensor(uint8))
seq(map(int64,float)) seq(map(string,float))
seq(tensor(bfloat16)) seq(tensor(bool)) seq(tensor(complex128)) seq(tensor(complex64)) seq(tensor(double)) seq(tensor(float)) seq(tensor(float16)) seq(tensor(int16)) seq(tensor(int32)) seq(tensor(int64)) seq(tensor(int8)) seq(tensor(string)) seq(tensor(uint16)) seq(tensor(uint32)) seq(tensor(uint64)) seq(tensor(uint8))
uint16 uint32 uint64 uint8
"""
ROWS: Final = {
    "ai.onnx": """\
Abs ; 1 T T T=0 ; 6 T T T=8 ; 13 T T T=9
Acos ; 7 T T T=0 ; 22 T T T=1
Acosh ; 9 T T T=0 ; 22 T T T=1
Add ; 1 T,T T T=0 ; 6 T,T T T=7 ; 7 ; 13 T,T T T=10 ; 14 T,T T T=9
AffineGrid ; 20 T1,T2 T1 T1=1 T2=4
And ; 1 T,T T1 T=2 T1=2 ; 7
ArgMax ; 1 T tensor(int64) T=8 ; 11 ; 12 ; 13 T tensor(int64) T=9
ArgMin ; 1 T tensor(int64) T=8 ; 11 ; 12 ; 13 T tensor(int64) T=9
Asin ; 7 T T T=0 ; 22 T T T=1
Asinh ; 9 T T T=0 ; 22 T T T=1
Atan ; 7 T T T=0 ; 22 T T T=1
Atanh ; 9 T T T=0 ; 22 T T T=1
Attention ; 23 T1,T1,T2,U,T1,T2 T1,T1,T2,T1 T1=1 T2=1 U=20 ; 24 T1,T1,T2,U,T1,T2,tensor(int64) T1,T1,T2,T1 T1=1 T2=1 U=20 ; 25
AveragePool ; 1 T T T=0 ; 7 ; 10 ; 11 ; 19 ; 22 T T T=1
BatchNormalization ; 1 T,T,T,T,T T,T,T,T,T T=0 ; 6 ; 7 ; 9 ; 14 T,T,T,U,U T,U,U T=1 U=1 ; 15 T,T1,T1,T2,T2 T,T2,T2 T=1 T1=1 T2=1
Bernoulli ; 15 T1 T2 T1=0 T2=20 ; 22 T1 T2 T1=1 T2=20
BitCast ; 26 T1 T2 T1=47 T2=47
BitShift ; 11 T,T T T=102 ; 28 T,T T T=28
BitwiseAnd ; 18 T,T T T=28
BitwiseNot ; 18 T T T=28
BitwiseOr ; 18 T,T T T=28
BitwiseXor ; 18 T,T T T=28
BlackmanWindow ; 17 T1 T2 T1=6 T2=9
Cast ; 1 T1 T2 T1=21 T2=21 ; 6 ; 9 T1 T2 T1=58 T2=58 ; 13 T1 T2 T1=27 T2=27 ; 19 T1 T2 T1=33 T2=33 ; 21 T1 T2 T1=32 T2=32 ; 23 T1 T2 T1=31 T2=31 ; 24 T1 T2 T1=30 T2=30 ; 25 T1 T2 T1=29 T2=29 ; 28 T1 T2 T1=53 T2=53
CastLike ; 15 T1,T2 T2 T1=27 T2=27 ; 19 T1,T2 T2 T1=33 T2=33 ; 21 T1,T2 T2 T1=32 T2=32 ; 23 T1,T2 T2 T1=31 T2=31 ; 24 T1,T2 T2 T1=30 T2=30 ; 25 T1,T2 T2 T1=29 T2=29
CausalConvWithState ; 27 T,T,T,T T,T T=13
Ceil ; 1 T T T=0 ; 6 ; 13 T T T=1
Celu ; 12 T T T=40 ; 28 T T T=1
CenterCropPad ; 18 T,Tind T T=5 Tind=6
Clip ; 1 T T T=0 ; 6 ; 11 T,T,T T T=0 ; 12 T,T,T T T=8 ; 13 T,T,T T T=9
Col2Im ; 18 T,tensor(int64),tensor(int64) T T=5
Compress ; 9 T,T1 T T=3 T1=2 ; 11 ; 28 T,T1 T T=5 T1=2
Concat ; 1 T T T=0 ; 4 T T T=3 ; 11 ; 13 T T T=5
ConcatFromSequence ; 11 S T S=19 T=3
Constant ; 1 - T T=0 ; 9 - T T=3 ; 11 ; 12 ; 13 - T T=5 ; 19 - T T=26 ; 21 - T T=18 ; 23 - T T=17 ; 24 - T T=15 ; 25 - T T=16
ConstantOfShape ; 9 T1 T2 T1=4 T2=21 ; 20 T1 T2 T1=4 T2=78 ; 21 T1 T2 T1=4 T2=77 ; 23 T1 T2 T1=4 T2=76 ; 24 T1 T2 T1=4 T2=75 ; 25 T1 T2 T1=4 T2=74
Conv ; 1 T,T,T T T=0 ; 11 ; 22 T,T,T T T=1
ConvInteger ; 10 T1,T2,T1,T2 T3 T1=14 T2=14 T3=11
ConvTranspose ; 1 T,T,T T T=0 ; 11 ; 22 T,T,T T T=1
Cos ; 7 T T T=0 ; 22 T T T=1
Cosh ; 9 T T T=0 ; 22 T T T=1
CumProd ; 26 T,T2 T T=10 T2=6
CumSum ; 11 T,T2 T T=87 T2=6 ; 14 T,T2 T T=10 T2=6
DFT ; 17 T1,T2 T1 T1=1 T2=6 ; 20 T1,T2,tensor(int64) T1 T1=1 T2=6
DeformConv ; 19 T,T,T,T,T T T=0 ; 22 T,T,T,T,T T T=1
DepthToSpace ; 1 T T T=3 ; 11 ; 13 T T T=5 ; 28
DequantizeLinear ; 10 T,tensor(float),T tensor(float) T=66 ; 13 ; 19 T1,T2,T1 T2 T1=95 T2=13 ; 21 T1,T2,T1 T2 T1=93 T2=13 ; 23 T1,T2,T1 T3 T1=64 T2=13 T3=13 ; 24 T1,T2,T1 T3 T1=64 T2=38 T3=13 ; 25 T1,T2,T1 T3 T1=91 T2=38 T3=13 ; 28 T1,T2,T1 T3 T1=89 T2=38 T3=13
Det ; 11 T T T=0 ; 22 T T T=1
Div ; 1 T,T T T=0 ; 6 T,T T T=7 ; 7 ; 13 T,T T T=10 ; 14 T,T T T=9
Dropout ; 1 T T,T T=0 ; 6 ; 7 ; 10 T T,T1 T=0 T1=2 ; 12 T,T1,T2 T,T2 T=0 T1=0 T2=2 ; 13 T,T1,T2 T,T2 T=1 T1=0 T2=2 ; 22 T,T1,T2 T,T2 T=34 T1=34 T2=2
DynamicQuantizeLinear ; 11 T1 T2,tensor(float),T2 T1=40 T2=43
Einsum ; 12 T T T=8 ; 28 T T T=9
Elu ; 1 T T T=0 ; 6 ; 22 T T T=1
Equal ; 1 T,T T1 T=59 T1=2 ; 7 ; 11 T,T T1 T=21 T1=2 ; 13 T,T T1 T=20 T1=2 ; 19 T,T T1 T=27 T1=2
Erf ; 9 T T T=8 ; 13 T T T=1
Exp ; 1 T T T=0 ; 6 ; 13 T T T=1
Expand ; 8 T,tensor(int64) T T=3 ; 13 T,tensor(int64) T T=5
EyeLike ; 9 T1 T2 T1=21 T2=21 ; 22 T1 T2 T1=20 T2=20
Flatten ; 1 T T T=0 ; 9 T T T=3 ; 11 ; 13 T T T=5 ; 21 T T T=18 ; 23 T T T=17 ; 24 T T T=15 ; 25 T T T=16
Floor ; 1 T T T=0 ; 6 ; 13 T T T=1
GRU ; 1 T,T,T,T,T1,T T,T T=0 T1=11 ; 3 ; 7 ; 14 ; 22 T,T,T,T,T1,T T,T T=1 T1=11
Gather ; 1 T,Tind T T=3 Tind=6 ; 11 ; 13 T,Tind T T=5 Tind=6
GatherElements ; 11 T,Tind T T=3 Tind=6 ; 13 T,Tind T T=5 Tind=6
GatherND ; 11 T,tensor(int64) T T=3 ; 12 ; 13 T,tensor(int64) T T=5
Gelu ; 20 T T T=1
Gemm ; 1 T,T,T T T=0 ; 6 ; 7 ; 9 T,T,T T T=7 ; 11 ; 13 T,T,T T T=10
GlobalAveragePool ; 1 T T T=0 ; 22 T T T=1
GlobalLpPool ; 1 T T T=0 ; 2 ; 22 T T T=1
GlobalMaxPool ; 1 T T T=0 ; 22 T T T=1
Greater ; 1 T,T T1 T=0 T1=2 ; 7 ; 9 T,T T1 T=8 T1=2 ; 13 T,T T1 T=9 T1=2
GreaterOrEqual ; 12 T,T T1 T=8 T1=2 ; 16 T,T T1 T=9 T1=2
GridSample ; 16 T1,T2 T1 T1=3 T2=0 ; 20 ; 22 T1,T2 T1 T1=5 T2=1
GroupNormalization ; 18 ! ; 21 T,T,T T T=1
HammingWindow ; 17 T1 T2 T1=6 T2=9
HannWindow ; 17 T1 T2 T1=6 T2=9
HardSigmoid ; 1 T T T=0 ; 6 ; 22 T T T=1
HardSwish ; 14 T T T=0 ; 22 T T T=1
Hardmax ; 1 T T T=0 ; 11 ; 13 T T T=1
Identity ; 1 T T T=3 ; 13 T T T=5 ; 14 V V V=73 ; 16 V V V=72 ; 19 V V V=71 ; 21 V V V=70 ; 23 V V V=69 ; 24 V V V=68 ; 25 V V V=67
If ; 1 B V* B=2 V=3 ; 11 ; 13 B V* B=2 V=25 ; 16 B V* B=2 V=52 ; 19 B V* B=2 V=51 ; 21 B V* B=2 V=50 ; 23 B V* B=2 V=49 ; 24 B V* B=2 V=48 ; 25 B V* B=2 V=46
ImageDecoder ; 20 T1 T2 T1=43 T2=43
InstanceNormalization ; 1 T,T,T T T=0 ; 6 ; 22 T,T,T T T=1
IsInf ; 10 T1 T2 T1=24 T2=2 ; 20 T1 T2 T1=34 T2=2
IsNaN ; 9 T1 T2 T1=0 T2=2 ; 13 T1 T2 T1=1 T2=2 ; 20 T1 T2 T1=34 T2=2
LRN ; 1 T T T=0 ; 13 T T T=1
LSTM ; 1 T,T,T,T,T1,T,T,T T,T,T T=0 T1=11 ; 7 ; 14 ; 22 T,T,T,T,T1,T,T,T T,T,T T=1 T1=11
LayerNormalization ; 17 T,T,T T,U,U T=1 U=81
LeakyRelu ; 1 T T T=0 ; 6 ; 16 T T T=1
Less ; 1 T,T T1 T=0 T1=2 ; 7 ; 9 T,T T1 T=8 T1=2 ; 13 T,T T1 T=9 T1=2
LessOrEqual ; 12 T,T T1 T=8 T1=2 ; 16 T,T T1 T=9 T1=2
LinearAttention ; 27 T,T,T,S,T,T T,S S=13 T=13
Log ; 1 T T T=0 ; 6 ; 13 T T T=1
LogSoftmax ; 1 T T T=0 ; 11 ; 13 T T T=1
Loop ; 1 I,B,V* V* B=2 I=4 V=3 ; 11 ; 13 I,B,V* V* B=2 I=4 V=25 ; 16 I,B,V* V* B=2 I=4 V=52 ; 19 I,B,V* V* B=2 I=4 V=51 ; 21 I,B,V* V* B=2 I=4 V=50 ; 23 I,B,V* V* B=2 I=4 V=49 ; 24 I,B,V* V* B=2 I=4 V=48 ; 25 I,B,V* V* B=2 I=4 V=46
LpNormalization ; 1 T T T=0 ; 22 T T T=1
LpPool ; 1 T T T=0 ; 2 ; 11 ; 18 ; 22 T T T=1
MatMul ; 1 T,T T T=0 ; 9 T,T T T=7 ; 13 T,T T T=10
MatMulInteger ; 10 T1,T2,T1,T2 T3 T1=14 T2=14 T3=11
Max ; 1 T T T=0 ; 6 ; 8 ; 12 T T T=8 ; 13 T T T=9
MaxPool ; 1 T T T=0 ; 8 T T,I I=4 T=0 ; 10 ; 11 ; 12 T T,I I=4 T=85 ; 22 T T,I I=4 T=80
MaxRoiPool ; 1 T,T T T=0 ; 22 T,T T T=1
MaxUnpool ; 9 T1,T2,T2 T1 T1=0 T2=4 ; 11 ; 22 T1,T2,T2 T1 T1=1 T2=4
Mean ; 1 T T T=0 ; 6 ; 8 ; 13 T T T=1
MeanVarianceNormalization ; 9 T T T=0 ; 13 T T T=1
MelWeightMatrix ; 17 T1,T1,T1,T2,T2 T3 T1=6 T2=1 T3=9
Min ; 1 T T T=0 ; 6 ; 8 ; 12 T T T=8 ; 13 T T T=9
Mish ; 18 T T T=0 ; 22 T T T=1
Mod ; 10 T,T T T=8 ; 13 T,T T T=9 ; 28
Mul ; 1 T,T T T=0 ; 6 T,T T T=7 ; 7 ; 13 T,T T T=10 ; 14 T,T T T=9
Multinomial ; 7 T1 T2 T1=0 T2=6 ; 22 T1 T2 T1=1 T2=6
Neg ; 1 T T T=0 ; 6 T T T=83 ; 13 T T T=55
NegativeLogLikelihoodLoss ; 12 T,Tind,T T T=0 Tind=6 ; 13 ; 22 T,Tind,T T T=1 Tind=6
NonMaxSuppression ; 10 tensor(float),tensor(float),tensor(int64),tensor(float),tensor(float) tensor(int64) ; 11
NonZero ; 9 T tensor(int64) T=3 ; 13 T tensor(int64) T=5
Not ; 1 T T T=2
OneHot ; 9 T1,T2,T3 T3 T1=8 T2=8 T3=3 ; 11 ; 28 T1,T2,T3 T3 T1=8 T2=8 T3=5
Optional ; 15 V O O=42 V=25 ; 28 V O O=99 V=45
OptionalGetElement ; 15 O V O=42 V=25 ; 18 O V O=57 V=25 ; 28 O V O=44 V=45
OptionalHasElement ; 15 O B B=2 O=42 ; 18 O B B=2 O=57 ; 28 O B B=2 O=44
Or ; 1 T,T T1 T=2 T1=2 ; 7
PRelu ; 1 T,T T T=0 ; 6 ; 7 ; 9 T,T T T=7 ; 16 T,T T T=10
Pad ; 1 T T T=0 ; 2 ; 11 T,tensor(int64),T T T=8 ; 13 T,tensor(int64),T T T=5 ; 18 T,tensor(int64),T,Tind T T=5 Tind=6 ; 19 ; 21 T,tensor(int64),T,Tind T T=18 Tind=6 ; 23 T,tensor(int64),T,Tind T T=17 Tind=6 ; 24 T,tensor(int64),T,Tind T T=15 Tind=6 ; 25 T,tensor(int64),T,Tind T T=16 Tind=6
Pow ; 1 T,T T T=0 ; 7 ; 12 T,T1 T T=84 T1=8 ; 13 T,T1 T T=56 T1=8 ; 15 T,T1 T T=56 T1=9
QLinearConv ; 10 T1,tensor(float),T1,T2,tensor(float),T2,tensor(float),T3,T4 T3 T1=14 T2=14 T3=14 T4=11
QLinearMatMul ; 10 T1,tensor(float),T1,T2,tensor(float),T2,tensor(float),T3 T3 T1=14 T2=14 T3=14 ; 21 T1,TS,T1,T2,TS,T2,TS,T3 T3 T1=36 T2=36 T3=36 TS=13
QuantizeLinear ; 10 T1,tensor(float),T2 T2 T1=63 T2=14 ; 13 ; 19 T1,T1,T2 T2 T1=23 T2=36 ; 21 T1,T1,T2 T2 T1=23 T2=94 ; 23 T1,T2,T3 T3 T1=23 T2=23 T3=65 ; 24 T1,T2,T3 T3 T1=23 T2=39 T3=65 ; 25 T1,T2,T3 T3 T1=23 T2=39 T3=92 ; 28 T1,T2,T3 T3 T1=23 T2=39 T3=90
RMSNormalization ; 23 T,V V T=1 V=1
RNN ; 1 T,T,T,T,T1,T T,T T=0 T1=11 ; 7 ; 14 ; 22 T,T,T,T,T1,T T,T T=1 T1=11
RandomNormal ; 1 - T T=0 ; 22 - T T=1
RandomNormalLike ; 1 T1 T2 T1=3 T2=0 ; 22 T1 T2 T1=5 T2=1
RandomUniform ; 1 - T T=0 ; 22 - T T=1
RandomUniformLike ; 1 T1 T2 T1=3 T2=0 ; 22 T1 T2 T1=5 T2=1
Range ; 11 T,T,T T T=86 ; 27 T,T,T T T=79
Reciprocal ; 1 T T T=0 ; 6 ; 13 T T T=1
ReduceL1 ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10
ReduceL2 ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10
ReduceLogSum ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10 ; 28 T,tensor(int64) T T=1
ReduceLogSumExp ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10 ; 28 T,tensor(int64) T T=1
ReduceMax ; 1 T T T=7 ; 11 ; 12 T T T=60 ; 13 T T T=35 ; 18 T,tensor(int64) T T=35 ; 20 T,tensor(int64) T T=54
ReduceMean ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10
ReduceMin ; 1 T T T=7 ; 11 ; 12 T T T=60 ; 13 T T T=35 ; 18 T,tensor(int64) T T=35 ; 20 T,tensor(int64) T T=54
ReduceProd ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10
ReduceSum ; 1 T T T=7 ; 11 ; 13 T,tensor(int64) T T=10
ReduceSumSquare ; 1 T T T=7 ; 11 ; 13 T T T=10 ; 18 T,tensor(int64) T T=10
RegexFullMatch ; 20 T1 T2 T1=37 T2=2
Relu ; 1 T T T=0 ; 6 ; 13 T T T=1 ; 14 T T T=55
Reshape ; 1 T T T=0 ; 5 T,tensor(int64) T T=3 ; 13 T,tensor(int64) T T=5 ; 14 ; 19 T,tensor(int64) T T=26 ; 21 T,tensor(int64) T T=18 ; 23 T,tensor(int64) T T=17 ; 24 T,tensor(int64) T T=15 ; 25 T,tensor(int64) T T=16
Resize ; 10 T,tensor(float) T T=3 ; 11 T1,T2,tensor(float),tensor(int64) T1 T1=3 T2=0 ; 13 T1,T2,tensor(float),tensor(int64) T1 T1=5 T2=0 ; 18 ; 19
ReverseSequence ; 10 T,tensor(int64) T T=3 ; 28 T,tensor(int64) T T=5
RoiAlign ; 10 T1,T1,T2 T1 T1=0 T2=4 ; 16 ; 22 T1,T1,T2 T1 T1=1 T2=4
RotaryEmbedding ; 23 T,T,T,M T M=4 T=13
Round ; 11 T T T=0 ; 22 T T T=1
STFT ; 17 T1,T2,T1,T2 T1 T1=1 T2=6
Scan ; 8 I,V* V* I=4 V=3 ; 9 V* V* V=3 ; 11 ; 16 V* V* V=5 ; 19 V* V* V=26 ; 21 V* V* V=18 ; 23 V* V* V=17 ; 24 V* V* V=15 ; 25 V* V* V=16
Scatter ; 9 T,Tind,T T T=3 Tind=6 ; 11 !
ScatterElements ; 11 T,Tind,T T T=3 Tind=6 ; 13 T,Tind,T T T=5 Tind=6 ; 16 ; 18
ScatterND ; 11 T,tensor(int64),T T T=3 ; 13 T,tensor(int64),T T T=5 ; 16 ; 18
Selu ; 1 T T T=0 ; 6 ; 22 T T T=1
SequenceAt ; 11 S,I T I=6 S=19 T=3
SequenceConstruct ; 11 T S S=19 T=3
SequenceEmpty ; 11 - S S=19
SequenceErase ; 11 S,I S I=6 S=19
SequenceInsert ; 11 S,T,I S I=6 S=19 T=3
SequenceLength ; 11 S I I=4 S=19
SequenceMap ; 17 S,V* S* S=19 V=25
Shape ; 1 T T1 T=3 T1=4 ; 13 T T1 T=5 T1=4 ; 15 ; 19 T T1 T=26 T1=4 ; 21 T T1 T=18 T1=4 ; 23 T T1 T=17 T1=4 ; 24 T T1 T=15 T1=4 ; 25 T T1 T=16 T1=4
Shrink ; 9 T T T=8
Sigmoid ; 1 T T T=0 ; 6 ; 13 T T T=1
Sign ; 9 T T T=8 ; 13 T T T=9
Sin ; 7 T T T=0 ; 22 T T T=1
Sinh ; 9 T T T=0 ; 22 T T T=1
Size ; 1 T T1 T=3 T1=4 ; 13 T T1 T=5 T1=4 ; 19 T T1 T=26 T1=4 ; 21 T T1 T=18 T1=4 ; 23 T T1 T=17 T1=4 ; 24 T T1 T=15 T1=4 ; 25 T T1 T=16 T1=4
Slice ; 1 T T T=3 ; 10 T,Tind,Tind,Tind,Tind T T=3 Tind=6 ; 11 ; 13 T,Tind,Tind,Tind,Tind T T=5 Tind=6
Softmax ; 1 T T T=0 ; 11 ; 13 T T T=1
SoftmaxCrossEntropyLoss ; 12 T,Tind,T T,T T=0 Tind=6 ; 13 T,Tind,T T,T T=1 Tind=6
Softplus ; 1 T T T=0 ; 22 T T T=1
Softsign ; 1 T T T=0 ; 22 T T T=1
SpaceToDepth ; 1 T T T=3 ; 13 T T T=5 ; 28
Split ; 1 T,T T T=0 ; 2 T T T=3 ; 11 ; 13 T,tensor(int64) T T=5 ; 18
SplitToSequence ; 11 T,I S I=6 S=19 T=3 ; 24 T,I S I=6 S=101 T=5
Sqrt ; 1 T T T=0 ; 6 ; 13 T T T=1
Squeeze ; 1 T T T=3 ; 11 ; 13 T,tensor(int64) T T=5 ; 21 T,tensor(int64) T T=18 ; 23 T,tensor(int64) T T=17 ; 24 T,tensor(int64) T T=15 ; 25 T,tensor(int64) T T=16
StringConcat ; 20 T,T T T=37
StringNormalizer ; 10 tensor(string) tensor(string)
StringSplit ; 20 T1 T2,T3 T1=37 T2=37 T3=4
Sub ; 1 T,T T T=0 ; 6 T,T T T=7 ; 7 ; 13 T,T T T=10 ; 14 T,T T T=9
Sum ; 1 T T T=0 ; 6 ; 8 ; 13 T T T=1
SwiGLU ; 28 T,T T T=1
Swish ; 24 T T T=1
Tan ; 7 T T T=0 ; 22 T T T=1
Tanh ; 1 T T T=0 ; 6 ; 13 T T T=1
TensorScatter ; 24 T,T,tensor(int64) T T=15
TfIdfVectorizer ; 9 T T1 T=96 T1=40
ThresholdedRelu ; 10 T T T=0 ; 22 T T T=1
Tile ; 1 T,T,T T T=0 T1=4 ; 6 T,T1 T T=3 T1=4 ; 13 T,T1 T T=5 T1=4
TopK ; 1 T T,I I=4 T=0 ; 10 T,tensor(int64) T,I I=4 T=0 ; 11 T,tensor(int64) T,I I=4 T=8 ; 24 T,tensor(int64) T,I I=4 T=9
Transpose ; 1 T T T=3 ; 13 T T T=5 ; 21 T T T=18 ; 23 T T T=17 ; 24 T T T=15 ; 25 T T T=16
Trilu ; 14 T,tensor(int64) T T=5
Unique ; 11 T T,tensor(int64),tensor(int64),tensor(int64) T=3 ; 28 T T,tensor(int64),tensor(int64),tensor(int64) T=5
Unsqueeze ; 1 T T T=3 ; 11 ; 13 T,tensor(int64) T T=5 ; 21 T,tensor(int64) T T=18 ; 23 T,tensor(int64) T T=17 ; 24 T,tensor(int64) T T=15 ; 25 T,tensor(int64) T T=16
Upsample ; 1 T T T=82 ; 7 T T T=3 ; 9 T,tensor(float) T T=3 ; 10 !
Where ; 9 B,T,T T B=2 T=3 ; 16 B,T,T T B=2 T=5
Xor ; 1 T,T T1 T=2 T1=2 ; 7
""",
    "ai.onnx.ml": """\
ArrayFeatureExtractor ; 1 T,tensor(int64) T T=62
Binarizer ; 1 T T T=12
CastMap ; 1 T1 T2 T1=98 T2=41
CategoryMapper ; 1 T1 T2 T1=22 T2=22
DictVectorizer ; 1 T1 T2 T1=97 T2=88
FeatureVectorizer ; 1 T1 tensor(float) T1=12
Imputer ; 1 T T T=12
LabelEncoder ; 1 T1 T2 T1=22 T2=22 ; 2 T1 T2 T1=41 T2=41 ; 4 T1 T2 T1=61 T2=61
LinearClassifier ; 1 T1 T2,tensor(float) T1=12 T2=22
LinearRegressor ; 1 T tensor(float) T=12
Normalizer ; 1 T tensor(float) T=12
OneHotEncoder ; 1 T tensor(float) T=62
SVMClassifier ; 1 T1 T2,tensor(float) T1=12 T2=22
SVMRegressor ; 1 T tensor(float) T=12
Scaler ; 1 T tensor(float) T=12
TreeEnsemble ; 5 T T T=0
TreeEnsembleClassifier ; 1 T1 T2,tensor(float) T1=12 T2=22 ; 3 ; 5 !
TreeEnsembleRegressor ; 1 T tensor(float) T=12 ; 3 ; 5 !
ZipMap ; 1 tensor(float) T T=100
""",
    "ai.onnx.preview": """\
FlexAttention ; 1 T1,T1,T1 T1 T1=1
""",
    "ai.onnx.preview.training": """\
Adagrad ; 1 T1,T2,T3* T3* T1=24 T2=4 T3=24
Adam ; 1 T1,T2,T3* T3* T1=24 T2=4 T3=24
Gradient ; 1 T1* T2* T1=3 T2=0
Momentum ; 1 T1,T2,T3* T3* T1=24 T2=4 T3=24
""",
}
