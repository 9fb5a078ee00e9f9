//! Reads arbitrary bytes as the program of a Paddle model. Lists its variables, and its parameters
//! in the order of a combined file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto_splitter_paddle::{parameters, variables};

/// Adds the programs of Paddle's test models to the corpus.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("paddle_program") else {
        return;
    };
    let root = proto_splitter_fuzz::root();
    let models = std::fs::read_dir(root.join("../tests/data/paddle")).expect("the fixtures");
    for model in models {
        let model = model.expect("a fixture").path();
        for entry in std::fs::read_dir(&model).into_iter().flatten() {
            let path = entry.expect("a fixture").path();
            let is_program = path
                .extension()
                .is_some_and(|extension| extension == "pdmodel")
                || path.file_name().is_some_and(|name| name == "__model__");
            if is_program {
                let name = model
                    .file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned();
                let program = std::fs::read(&path).expect("a fixture");
                std::fs::write(corpus.join(name), &program[..program.len().min(8000)])
                    .expect("a seed");
            }
        }
    }
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| {
        let Ok(variables) = variables(&data) else {
            return;
        };
        for variable in &variables {
            let _ = (variable.kind(), variable.dtype(), variable.bytes(), variable.is_parameter());
        }
        if let Ok(parameters) = parameters(&variables) {
            assert!(parameters.windows(2).all(|pair| pair[0].name() < pair[1].name()));
        }
    }
);
