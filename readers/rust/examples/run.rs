//! Runs a model in RTen from an archive. Every element of a float input is 1, and of other inputs 0:
//!
//! ```text
//! cargo run --release --features rten --example run -- model.onnxz [DIMENSION=SIZE ...]
//! ```
//!
//! The sizes are for dimensions with a name in the model. Other open dimensions are 1.

use std::error::Error;
use std::time::Instant;

use rten::{DataType, Dimension, Model, NodeId, Value, ValueType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: run MODEL.onnxz [DIMENSION=SIZE ...]")?;
    let sizes: Vec<(String, usize)> = arguments
        .map(|argument| {
            let (name, size) = argument.split_once('=').ok_or("a size is DIMENSION=SIZE")?;
            Ok((name.to_owned(), size.parse()?))
        })
        .collect::<Result<_, Box<dyn Error>>>()?;

    let start = Instant::now();
    let model = onnxz::rten::load(&path)?;
    println!("loaded in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let mut inputs = Vec::new();
    for id in model.input_ids() {
        inputs.push((*id, input(&model, *id, &sizes)?.into()));
    }
    let start = Instant::now();
    let outputs = model.run(inputs, model.output_ids(), None)?;
    println!("ran in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    for (id, output) in model.output_ids().iter().zip(outputs) {
        let name = model.node_info(*id).and_then(|info| info.name()).unwrap_or("?");
        println!("{name}: {output:?}");
    }
    Ok(())
}

/// A value for an input of the model.
fn input(model: &Model, id: NodeId, sizes: &[(String, usize)]) -> Result<Value, Box<dyn Error>> {
    let info = model.node_info(id).ok_or("the model has an input that is no value")?;
    let size = |name: &str| sizes.iter().find(|(named, _)| named == name).map_or(1, |(_, size)| *size);
    let dims: Vec<usize> = info
        .shape()
        .unwrap_or_default()
        .iter()
        .map(|dim| match dim {
            Dimension::Fixed(size) => *size,
            Dimension::Symbolic(name) => size(name),
        })
        .collect();
    let elements = dims.iter().product();
    Ok(match info.dtype() {
        Some(ValueType::Tensor(DataType::Float)) => Value::from_shape(&dims, vec![1_f32; elements])?,
        Some(ValueType::Tensor(DataType::Int32)) => Value::from_shape(&dims, vec![0_i32; elements])?,
        Some(ValueType::Tensor(DataType::Int8)) => Value::from_shape(&dims, vec![0_i8; elements])?,
        Some(ValueType::Tensor(DataType::UInt8)) => Value::from_shape(&dims, vec![0_u8; elements])?,
        other => return Err(format!("this example makes no input of the type {other:?}").into()),
    })
}
