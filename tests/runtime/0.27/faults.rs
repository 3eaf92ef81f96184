// The program of docs/rten_faults.md; tests/rten/fault_pages.py writes it.
use std::error::Error;
use std::path::Path;

use rten::{Model, Value};
use rten_tensor::Tensor;

fn run(folder: &str, name: &str, inputs: Vec<(&str, Value)>) -> Result<(), Box<dyn Error>> {
    let model = Model::load_file(Path::new(folder).join(name))?;
    let inputs = inputs.into_iter().map(|(name, value)| Ok((model.node_id(name)?, value.into())));
    let inputs = inputs.collect::<Result<_, rten::RunError>>()?;
    for value in model.run(inputs, model.output_ids(), None)? {
        println!("{value:?}");
    }
    Ok(())
}

#[rustfmt::skip] // as on the page
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments[1].as_str();
    match arguments[2].as_str() {
        "matmul_integer_columns" => {
            let x = Tensor::<i8>::from_data(&[2, 1], vec![1, 2]);
            run(folder, "matmul_integer_columns.onnx", vec![("x", x.into())])
        }
        "matmul_integer_stack" => {
            let x = Tensor::<u8>::from_data(&[2, 1], vec![1, 2]);
            run(folder, "matmul_integer_stack.onnx", vec![("x", x.into())])
        }
        "conv_integer_batch" => {
            let x = Tensor::<u8>::from_data(&[2, 1, 1, 2], vec![1, 2, 3, 4]);
            run(folder, "conv_integer_batch.onnx", vec![("x", x.into())])
        }
        "conv_integer_steps" => {
            let x = Tensor::<u8>::from_data(&[2, 1, 2, 1], vec![1, 2, 3, 4]);
            run(folder, "conv_integer_steps.onnx", vec![("x", x.into())])
        }
        "conv_integer_pads" => {
            let x = Tensor::<u8>::from_data(&[1, 2, 1, 1], vec![5, 6]);
            run(folder, "conv_integer_pads.onnx", vec![("x", x.into())])
        }
        "scatter_elements" => {
            let x = Tensor::<f32>::from_data(&[2, 2, 2], vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            let i = Tensor::<i32>::from_data(&[1, 2, 1], vec![1, 0]);
            let u = Tensor::<f32>::from_data(&[1, 2, 1], vec![10.0, 20.0]);
            run(folder, "scatter_elements.onnx", vec![("x", x.into()), ("i", i.into()), ("u", u.into())])
        }
        "quantize_large_numbers" => {
            let x = Tensor::<f32>::from_data(&[2], vec![1.0, 1e+09]);
            run(folder, "quantize_large_numbers.onnx", vec![("x", x.into())])
        }
        "quantize_linear" => {
            let x = Tensor::<f32>::from_data(&[1], vec![2.25]);
            run(folder, "quantize_linear.onnx", vec![("x", x.into())])
        }
        "dynamic_quantize_linear" => {
            let x = Tensor::<f32>::from_data(&[3], vec![2.0, -3.0, -2.5]);
            run(folder, "dynamic_quantize_linear.onnx", vec![("x", x.into())])
        }
        "softplus" => {
            let x = Tensor::<f32>::from_data(&[1], vec![100.0]);
            run(folder, "softplus.onnx", vec![("x", x.into())])
        }
        "div_by_small" => {
            let x = Tensor::<f32>::from_data(&[1], vec![1e-39]);
            let divisor = Tensor::from(1e-39_f32);
            run(folder, "div_by_small.onnx", vec![("x", x.into()), ("divisor", divisor.into())])
        }
        "sign" => {
            let x = Tensor::<f32>::from_data(&[2], vec![0.0, -0.0]);
            run(folder, "sign.onnx", vec![("x", x.into())])
        }
        "arg_max" => {
            let x = Tensor::<f32>::from_data(&[3], vec![2.0, 2.0, 1.0]);
            run(folder, "arg_max.onnx", vec![("x", x.into())])
        }
        "range" => {
            let start = Tensor::from(0.0_f32);
            let limit = Tensor::from(100.0_f32);
            let delta = Tensor::from(0.1_f32);
            run(folder, "range.onnx", vec![("start", start.into()), ("limit", limit.into()), ("delta", delta.into())])
        }
        "non_max_suppression" => {
            let boxes = Tensor::<f32>::from_data(&[1, 2, 4], vec![0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
            let scores = Tensor::<f32>::from_data(&[1, 2, 2], vec![0.9, 0.8, 0.7, 0.95]);
            run(folder, "non_max_suppression.onnx", vec![("boxes", boxes.into()), ("scores", scores.into())])
        }
        "non_max_suppression_default" => {
            let boxes = Tensor::<f32>::from_data(&[1, 1, 4], vec![0.0, 0.0, 1.0, 1.0]);
            let scores = Tensor::<f32>::from_data(&[1, 1, 1], vec![0.9]);
            run(folder, "non_max_suppression_default.onnx", vec![("boxes", boxes.into()), ("scores", scores.into())])
        }
        "non_max_suppression_corners" => {
            let boxes = Tensor::<f32>::from_data(&[1, 2, 4], vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
            let scores = Tensor::<f32>::from_data(&[1, 1, 2], vec![0.9, 0.8]);
            run(folder, "non_max_suppression_corners.onnx", vec![("boxes", boxes.into()), ("scores", scores.into())])
        }
        "lstm_lengths" => {
            let x = Tensor::<f32>::from_data(&[2, 1, 1], vec![1.0, 1.0]);
            let lengths = Tensor::<i32>::from_data(&[1], vec![1]);
            run(folder, "lstm_lengths.onnx", vec![("x", x.into()), ("lengths", lengths.into())])
        }
        "reduce_l2_noop" => {
            let x = Tensor::<f32>::from_data(&[2], vec![-1.0, 3.0]);
            run(folder, "reduce_l2_noop.onnx", vec![("x", x.into())])
        }
        "clip_nan" => {
            let x = Tensor::<f32>::from_data(&[2], vec![f32::NAN, 2.0]);
            run(folder, "clip_nan.onnx", vec![("x", x.into())])
        }
        "matmul_no_rows" => {
            let x = Tensor::<f32>::from_data(&[0, 3], vec![]);
            run(folder, "matmul_no_rows.onnx", vec![("x", x.into())])
        }
        "div_rank" => {
            let x = Tensor::<f32>::from_data(&[2], vec![1.0, 2.0]);
            let divisor = Tensor::<f32>::from_data(&[1, 1], vec![2.0]);
            run(folder, "div_rank.onnx", vec![("x", x.into()), ("divisor", divisor.into())])
        }
        "mat_mul_vector" => {
            let x = Tensor::<f32>::from_data(&[2, 2, 2], vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
            let v = Tensor::<f32>::from_data(&[2], vec![1.0, 1.0]);
            run(folder, "mat_mul_vector.onnx", vec![("x", x.into()), ("v", v.into())])
        }
        "mat_mul_no_columns" => {
            let v = Tensor::<f32>::from_data(&[2], vec![1.0, 1.0]);
            let x = Tensor::<f32>::from_data(&[2, 0], vec![]);
            run(folder, "mat_mul_no_columns.onnx", vec![("v", v.into()), ("x", x.into())])
        }
        "non_zero_scalar" => {
            let x = Tensor::from(5.0_f32);
            run(folder, "non_zero_scalar.onnx", vec![("x", x.into())])
        }
        "where_of_scalars" => {
            let x = Tensor::from(1.0_f32);
            run(folder, "where_of_scalars.onnx", vec![("x", x.into())])
        }
        "zero_of_more_axes" => {
            let x = Tensor::<f32>::from_data(&[2], vec![1.0, 2.0]);
            run(folder, "zero_of_more_axes.onnx", vec![("x", x.into())])
        }
        "div_of_whole_floats" => {
            let x = Tensor::<f32>::from_data(&[3], vec![0.0, 0.0, 0.0]);
            run(folder, "div_of_whole_floats.onnx", vec![("x", x.into())])
        }
        "reduce_noop" => {
            let x = Tensor::<f32>::from_data(&[2], vec![1.0, 3.0]);
            run(folder, "reduce_noop.onnx", vec![("x", x.into())])
        }
        "reduce_noop_shape" => {
            let x = Tensor::<f32>::from_data(&[2, 3], vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            run(folder, "reduce_noop_shape.onnx", vec![("x", x.into())])
        }
        "quantize_cast" => {
            let x = Tensor::<f32>::from_data(&[1], vec![200.0]);
            run(folder, "quantize_cast.onnx", vec![("x", x.into())])
        }
        "equal_outputs" => {
            let x = Tensor::<f32>::from_data(&[2, 3], vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            run(folder, "equal_outputs.onnx", vec![("x", x.into())])
        }
        "output_of_branch" => {
            let c = Tensor::from(1_i32);
            let x = Tensor::<f32>::from_data(&[2], vec![-1.0, 2.0]);
            run(folder, "output_of_branch.onnx", vec![("c", c.into()), ("x", x.into())])
        }
        "value_in_branch" => {
            let c = Tensor::from(1_i32);
            let x = Tensor::<f32>::from_data(&[2], vec![-1.0, 2.0]);
            run(folder, "value_in_branch.onnx", vec![("c", c.into()), ("x", x.into())])
        }
        "slice_backward_five_axes" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 3, 1, 1], vec![1.0, 2.0, 3.0]);
            run(folder, "slice_backward_five_axes.onnx", vec![("x", x.into())])
        }
        "slice_of_nothing" => {
            let x = Tensor::<f32>::from_data(&[0], vec![]);
            run(folder, "slice_of_nothing.onnx", vec![("x", x.into())])
        }
        "slice_from_in_front" => {
            let x = Tensor::<f32>::from_data(&[2], vec![1.0, 2.0]);
            run(folder, "slice_from_in_front.onnx", vec![("x", x.into())])
        }
        "slice_without_axes" => {
            let x = Tensor::<f32>::from_data(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            run(folder, "slice_without_axes.onnx", vec![("x", x.into())])
        }
        "slice_steps" => {
            let x = Tensor::<f32>::from_data(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            run(folder, "slice_steps.onnx", vec![("x", x.into())])
        }
        "loop_of_nothing" => {
            let n = Tensor::from(0_i32);
            let x = Tensor::<f32>::from_data(&[2], vec![1.0, 2.0]);
            run(folder, "loop_of_nothing.onnx", vec![("n", n.into()), ("x", x.into())])
        }
        "pool_of_little" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 2, 2], vec![1.0, 2.0, 0.0, 2.0]);
            run(folder, "pool_of_little.onnx", vec![("x", x.into())])
        }
        "gru" => {
            let x = Tensor::<f32>::from_data(&[2, 1, 1], vec![1.0, 1.0]);
            run(folder, "gru.onnx", vec![("x", x.into())])
        }
        "old_softmax" => {
            let x = Tensor::<f32>::from_data(&[1, 2, 2], vec![0.0, 0.0, 0.0, 0.0]);
            run(folder, "old_softmax.onnx", vec![("x", x.into())])
        }
        "cast_to_bool" => {
            let x = Tensor::<f32>::from_data(&[2], vec![0.5, 2.0]);
            run(folder, "cast_to_bool.onnx", vec![("x", x.into())])
        }
        "quantize_axis" => {
            let x = Tensor::<f32>::from_data(&[1, 2, 2], vec![4.0, 4.0, 4.0, 4.0]);
            let scale = Tensor::<f32>::from_data(&[2], vec![1.0, 2.0]);
            let zero = Tensor::<u8>::from_data(&[2], vec![0, 0]);
            run(folder, "quantize_axis.onnx", vec![("x", x.into()), ("scale", scale.into()), ("zero", zero.into())])
        }
        "same_lower" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 1, 2], vec![2.0, 1.0]);
            run(folder, "same_lower.onnx", vec![("x", x.into())])
        }
        "resize_cubic" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 1, 3], vec![0.0, 1.0, 0.0]);
            run(folder, "resize_cubic.onnx", vec![("x", x.into())])
        }
        "conv_without_lists" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 2, 2], vec![1.0, 2.0, 3.0, 4.0]);
            let w = Tensor::<f32>::from_data(&[1, 1, 1, 1], vec![2.0]);
            run(folder, "conv_without_lists.onnx", vec![("x", x.into()), ("w", w.into())])
        }
        "conv_transpose_without_lists" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 1, 1], vec![1.0]);
            let w = Tensor::<f32>::from_data(&[1, 1, 1, 2], vec![2.0, 3.0]);
            run(folder, "conv_transpose_without_lists.onnx", vec![("x", x.into()), ("w", w.into())])
        }
        "pool_without_strides" => {
            let x = Tensor::<f32>::from_data(&[1, 1, 2, 2], vec![1.0, 2.0, 3.0, 4.0]);
            run(folder, "pool_without_strides.onnx", vec![("x", x.into())])
        }
        other => Err(format!("no model is called {other:?}").into()),
    }
}
