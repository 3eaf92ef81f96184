//! The lines of Rust of docs/recipes.md, which the tests compare and run in the folder that is the argument.
use std::error::Error;

use rten::{Model, ModelOptions};
use rten_tensor::{AsView, Tensor};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn read() -> Result<Model> {
    let model = Model::load_file("one.onnx")?;
    Ok(model)
}

fn mapped() -> Result<Model> {
    // Safety: no process changes or truncates the files as long as the model is in use.
    let model = unsafe { Model::load_mmap("two.onnx")? };
    Ok(model)
}

fn from_memory() -> Result<Model> {
    let mut options = ModelOptions::with_all_ops();
    options.external_data("two.onnx.data", std::fs::read("two.onnx.data")?);
    let model = options.load(std::fs::read("two.onnx")?)?;
    Ok(model)
}

fn archive() -> Result<Model> {
    let model = onnxz::rten::load("model.onnxz")?;
    Ok(model)
}

fn linked() -> Result<Model> {
    // Safety: as above.
    let model = unsafe { Model::load_mmap("linked.onnx")? };
    Ok(model)
}

fn run(model: &Model) -> Result<Vec<f32>> {
    let image = Tensor::<f32>::from_data(&[1, 1, 28, 28], vec![0.5; 28 * 28]);
    let inputs = vec![(model.node_id("image")?, image.into())];
    let [probabilities] = model.run_n(inputs, [model.node_id("probabilities")?], None)?;
    let probabilities: Tensor<f32> = probabilities.try_into()?;
    Ok(probabilities.to_vec())
}

fn main() -> Result<()> {
    std::env::set_current_dir(std::env::args().nth(1).ok_or("no folder is given")?)?;
    let models = [
        ("read", read()?),
        ("mapped", mapped()?),
        ("from memory", from_memory()?),
        ("archive", archive()?),
        ("linked", linked()?),
    ];
    for (name, model) in models {
        println!("{name}: {:?}", run(&model)?);
    }
    Ok(())
}
