//! Runs models on a release of the RTen runtime: `.rten` files, `.onnx` files with their external data, and, on the
//! release that the crate in `readers/rust` is for, `.onnxz` archives.
//!
//! `RUNNER [--no-optimize] [--mmap] MODEL OUT_DIR NAME=FILE.npy ...` runs one model and prints its answer.
//! `RUNNER --batch` answers requests, one JSON object a line, until its standard input ends:
//!
//!     {"model": PATH, "name": TEXT, if the archive has several models; "out_dir": DIR, "inputs": {NAME: FILE.npy, or a list of files for a sequence},
//!      "optimize": BOOL, true if absent; "mmap": BOOL, false if absent: map the model and its external data}
//!
//! An answer is one line too. Output i of the graph is in OUT_DIR/out_<i>.npy, element j of a sequence in
//! OUT_DIR/out_<i>_<j>.npy; `file` is that path, or the list of them:
//!
//!     {"ok": true, "inputs": [{"name", "dtype", "shape"}], "outputs": [{"name", "dtype", "shape", "file"}],
//!      "load": {"seconds", "anonymous_nbytes": what the process has of its own after that more than before},
//!      "run": {"seconds"}}
//!     {"ok": false, "stage": "request" | "load" | "input" | "run" | "output", "error": TEXT}
//!
//! A panic in the runtime is caught and answered like an error, with the stage it happened in.

mod npy;

use std::cell::Cell;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use rten::{
    DataType, Dimension, Model, ModelOptions, NodeId, Sequence, Value, ValueOrView, ValueType, ValueView,
};
use serde_json::{Map, Value as Json, json};

/// The text of the latest panic, with its place in the source: the hook sees the place, the catcher does not.
static LATEST_PANIC: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    panic::set_hook(Box::new(|info| {
        if let Ok(mut text) = LATEST_PANIC.lock() {
            *text = info.to_string();
        }
    }));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--batch"] {
        return serve();
    }
    let Some(request) = request_from(&arguments) else {
        eprintln!(
            "usage: RUNNER [--no-optimize] [--mmap] MODEL OUT_DIR NAME=FILE.npy ...  |  RUNNER --batch"
        );
        return ExitCode::from(2);
    };
    let answer = answer(&request);
    println!("{answer}");
    if answer["ok"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The request that the command line spells, or nothing if it is not a legal one.
fn request_from(arguments: &[String]) -> Option<Json> {
    let (flags, words): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with("--"));
    if flags.iter().any(|flag| !["--no-optimize", "--mmap"].contains(&flag.as_str())) {
        return None;
    }
    let has = |name| flags.iter().any(|flag| *flag == name);
    let [model, out_dir, inputs @ ..] = words.as_slice() else { return None };
    // A file name holds no "=" more often than a value name does, so the last one separates.
    let inputs: Option<Map<String, Json>> = inputs
        .iter()
        .map(|word| word.rsplit_once('=').map(|(name, file)| (name.into(), file.into())))
        .collect();
    Some(json!({
        "model": model,
        "out_dir": out_dir,
        "inputs": inputs?,
        "optimize": !has("--no-optimize"),
        "mmap": has("--mmap"),
    }))
}

fn serve() -> ExitCode {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer(&request),
            Err(err) => json!({"ok": false, "stage": "request", "error": err.to_string()}),
        };
        if writeln!(io::stdout(), "{answer}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn answer(request: &Json) -> Json {
    let stage = Cell::new("request");
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(request, &stage)));
    let error = match result {
        Ok(Ok(answer)) => return answer,
        Ok(Err(error)) => error,
        Err(_) => LATEST_PANIC.lock().map(|text| text.clone()).unwrap_or_else(|_| "panicked".to_owned()),
    };
    json!({"ok": false, "stage": stage.get(), "error": error})
}

fn run(request: &Json, stage: &Cell<&'static str>) -> Result<Json, String> {
    let path = request["model"].as_str().ok_or("no \"model\"")?;
    let out_dir = Path::new(request["out_dir"].as_str().ok_or("no \"out_dir\"")?);
    let files = request["inputs"].as_object().ok_or("no \"inputs\"")?;

    stage.set("load");
    let mut options = ModelOptions::with_all_ops();
    options.enable_optimization(request["optimize"].as_bool().unwrap_or(true));
    let (anonymous_nbytes, start) = (own_nbytes(), Instant::now());
    let model = load(path, request["name"].as_str(), &options, request["mmap"] == true)?;
    let load = json!({
        "seconds": start.elapsed().as_secs_f64(),
        "anonymous_nbytes": own_nbytes().zip(anonymous_nbytes).map(|(after, before)| after - before),
    });

    stage.set("input");
    let inputs =
        files.iter().map(|(name, file)| read_input(&model, name, file)).collect::<Result<Vec<_>, _>>()?;

    stage.set("run");
    let start = Instant::now();
    let values = model.run(inputs, model.output_ids(), None).map_err(in_full)?;
    let run = json!({"seconds": start.elapsed().as_secs_f64()});

    stage.set("output");
    std::fs::create_dir_all(out_dir).map_err(in_full)?;
    let mut outputs = Vec::new();
    for (index, (id, value)) in model.output_ids().iter().zip(&values).enumerate() {
        let mut output = describe(&model, *id);
        output["file"] = write_output(out_dir, index, value)?;
        outputs.push(output);
    }
    let inputs: Vec<Json> = model.input_ids().iter().map(|id| describe(&model, *id)).collect();
    Ok(json!({"ok": true, "inputs": inputs, "outputs": outputs, "load": load, "run": run}))
}

/// The memory of this process that is no map of a file; Linux alone tells.
fn own_nbytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: i64 = status.split_once("RssAnon:")?.1.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn load(path: &str, name: Option<&str>, options: &ModelOptions, mmap: bool) -> Result<Model, String> {
    #[cfg(feature = "onnxz")]
    if path.ends_with(".onnxz") {
        let archive = onnxz::Archive::open(path).map_err(in_full)?.leak();
        return onnxz::rten::load_named(&archive, name, options).map_err(in_full);
    }
    if let Some(name) = name {
        return Err(format!("{path} has no models with names, such as {name:?}"));
    }
    let model = if mmap {
        // Sound: who asks leaves the files alone until the answer is there.
        unsafe { options.load_mmap(path) }
    } else {
        options.load_file(path)
    };
    model.map_err(in_full)
}

/// An error and all that caused it, on one line.
fn in_full(error: impl Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn read_input(model: &Model, name: &str, file: &Json) -> Result<(NodeId, ValueOrView<'static>), String> {
    let id = model.find_node(name).ok_or_else(|| format!("the model has no value named {name:?}"))?;
    let value = match file {
        Json::String(path) => npy::read(Path::new(path))?,
        Json::Array(paths) => read_sequence(paths, model.node_info(id).and_then(|info| info.dtype()))?,
        _ => return Err(format!("input {name:?} is neither a file nor a list of files")),
    };
    Ok((id, value.into()))
}

/// The sequence of the tensors in `paths`; an empty one has the element type that the model declares, or else f32.
fn read_sequence(paths: &[Json], declared: Option<ValueType>) -> Result<Value, String> {
    let elements = paths
        .iter()
        .map(|path| npy::read(Path::new(path.as_str().unwrap_or(""))))
        .collect::<Result<Vec<_>, _>>()?;
    let dtype = match elements.first().map(Value::dtype).or(declared) {
        Some(ValueType::Tensor(dtype) | ValueType::Sequence(dtype)) => dtype,
        _ => DataType::Float,
    };
    let mut sequence = Sequence::new(dtype);
    for (index, element) in elements.into_iter().enumerate() {
        sequence
            .insert(index, element)
            .map_err(|_| "the elements of a sequence differ in type".to_owned())?;
    }
    Ok(sequence.into())
}

/// The path of the file that now holds `value`, or for a sequence the list of one path an element.
fn write_output(out_dir: &Path, index: usize, value: &Value) -> Result<Json, String> {
    let write = |stem: String, view: &ValueView| {
        let path = out_dir.join(format!("{stem}.npy"));
        npy::write(&path, view).map(|()| json!(path))
    };
    match value {
        Value::Sequence(sequence) => sequence
            .iter()
            .enumerate()
            .map(|(j, element)| write(format!("out_{index}_{j}"), &element))
            .collect(),
        tensor => write(format!("out_{index}"), &tensor.as_view()),
    }
}

fn describe(model: &Model, id: NodeId) -> Json {
    let Some(info) = model.node_info(id) else { return json!({"name": null}) };
    let dims = info.shape().map(|dims| {
        let as_json = |dim| match dim {
            Dimension::Fixed(size) => json!(size),
            Dimension::Symbolic(name) => json!(name),
        };
        dims.into_iter().map(as_json).collect::<Vec<Json>>()
    });
    json!({"name": info.name(), "dtype": info.dtype().map(|dtype| dtype.to_string()), "shape": dims})
}
