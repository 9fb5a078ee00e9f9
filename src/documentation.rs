//! The pages about this crate from the folder `docs`. Their Rust examples are tested.

#[doc = include_str!("../docs/my-model-is-too-big.md")]
pub mod my_model_is_too_big {}

#[doc = include_str!("../docs/my-trace-is-too-big.md")]
pub mod my_trace_is_too_big {}

#[doc = include_str!("../docs/recipes.md")]
pub mod recipes {}

#[doc = include_str!("../docs/many-machines.md")]
pub mod many_machines {}

#[doc = include_str!("../docs/onnx.md")]
pub mod onnx {}

#[doc = include_str!("../docs/paddle.md")]
pub mod paddle {}

#[doc = include_str!("../docs/samediff.md")]
pub mod samediff {}

#[cfg(feature = "xla")]
#[doc = include_str!("../docs/xla.md")]
pub mod xla {}

#[doc = include_str!("../docs/python.md")]
pub mod python {}

#[cfg(all(feature = "externalize", feature = "tensorflow"))]
#[doc = include_str!("../docs/cookbook.md")]
pub mod cookbook {}

#[doc = include_str!("../docs/limits.md")]
pub mod limits {}

#[doc = include_str!("../docs/size-splitter.md")]
pub mod size_splitter {}

#[doc = include_str!("../docs/your-own-splitter.md")]
pub mod your_own_splitter {}

#[doc = include_str!("../docs/prost-build.md")]
pub mod prost_build {}

#[doc = include_str!("../docs/cpb-format.md")]
pub mod cpb_format {}

#[doc = include_str!("../docs/how-it-works.md")]
pub mod how_it_works {}
