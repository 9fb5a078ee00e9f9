//! The command line of `protosplit append`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HELP: &str = "\
Appends a tensor to a file of Paddle parameters in the layout `sized`, in place. The other
tensors aren't read, and their bytes don't change. After an error the file has its old size. If
the process is killed, readers report the offset at which to truncate the file.

FILE is the file of parameters, which may be empty, or the folder or program of a model.
Beside a program, the tensor has to be its next parameter: parameters are sorted by their
names, and each needs the program's type and dims.

TENSOR is a NumPy file. With --shape it is the elements alone, little-endian, and --dtype is
their type. NumPy's files lack some types, such as bfloat16: --dtype is needed for these.

Examples:
  protosplit append parameters next.npy
  protosplit append parameters elements.bin --dtype float32 --shape 128,64
  protosplit append parameters words.npy --lod 0,2,5,6";

#[derive(Args, Debug)]
pub(crate) struct AppendArgs {
    /// A file of parameters, or the folder or program of a model
    pub(crate) file: PathBuf,
    /// A NumPy file, or the elements alone; - for standard input
    pub(crate) tensor: PathBuf,
    /// Type of the elements, such as float32
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<String>,
    /// Shape of the tensor if the file has only its elements, such as 128,64; empty for a scalar
    #[arg(long, value_name = "SIZES", requires = "dtype")]
    pub(crate) shape: Option<String>,
    /// A LoD level: the start of every sequence and the end of the last; give the coarsest level
    /// first
    #[arg(long, value_name = "OFFSETS")]
    pub(crate) lod: Vec<String>,
    /// The program for the parameters, if it is in another folder
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
