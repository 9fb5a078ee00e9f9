//! Message types from the source of a .proto file.

use prost_reflect::DescriptorPool;

/// Compiles a .proto file with the name `name`, which imports at most well-known types.
///
/// # Panics
///
/// If the file doesn't compile.
pub fn compiled(name: &str, source: &str) -> DescriptorPool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(name);
    std::fs::write(&file, source).expect("a temporary file");
    let mut compiler = protox::Compiler::new([folder.path()]).expect("the folder exists");
    compiler.include_imports(true);
    compiler.open_file(&file).expect("the schema compiles");
    // Decodes the pool from the descriptor set instead of using the compiler's pool, since
    // prost-reflect reads `packed` before it has resolved a source's options.
    DescriptorPool::decode(&*compiler.encode_file_descriptor_set()).expect("as compiled")
}
