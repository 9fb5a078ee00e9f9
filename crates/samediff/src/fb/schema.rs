//! The tables of `schemas/`. `tests/it/schema.rs` generates this file; don't edit it.
#![allow(dead_code, reason = "all tables of the schemas are here")]

pub(crate) mod flat_graph {
    use crate::fb::{FieldType, Kind, TableType};

    pub(crate) static INT_PAIR: TableType = TableType {
        name: "IntPair",
        fields: &[
            FieldType { name: "first", kind: Kind::I32 },
            FieldType { name: "second", kind: Kind::I32 },
        ],
    };

    /// The slots of [`INT_PAIR`].
    pub(crate) mod int_pair {
        pub(crate) const FIRST: usize = 0;
        pub(crate) const SECOND: usize = 1;
    }

    pub(crate) static BUFFER_CHUNK: TableType = TableType {
        name: "BufferChunk",
        fields: &[
            FieldType { name: "index", kind: Kind::I64 },
            FieldType { name: "data", kind: Kind::Payload },
        ],
    };

    /// The slots of [`BUFFER_CHUNK`].
    pub(crate) mod buffer_chunk {
        pub(crate) const INDEX: usize = 0;
        pub(crate) const DATA: usize = 1;
    }

    pub(crate) static FLAT_ARRAY: TableType = TableType {
        name: "FlatArray",
        fields: &[
            FieldType { name: "shape", kind: Kind::I64s },
            FieldType { name: "buffer", kind: Kind::Payload },
            FieldType { name: "dtype", kind: Kind::I8 },
            FieldType { name: "byte_order", kind: Kind::I8 },
            FieldType { name: "buffer_chunks", kind: Kind::Tables(&super::flat_graph::BUFFER_CHUNK) },
            FieldType { name: "total_length", kind: Kind::I64 },
            FieldType { name: "external_file", kind: Kind::String },
            FieldType { name: "is_external", kind: Kind::I8 },
            FieldType { name: "appended_data_offset", kind: Kind::I64 },
            FieldType { name: "appended_data_length", kind: Kind::I64 },
        ],
    };

    /// The slots of [`FLAT_ARRAY`].
    pub(crate) mod flat_array {
        pub(crate) const SHAPE: usize = 0;
        pub(crate) const BUFFER: usize = 1;
        pub(crate) const DTYPE: usize = 2;
        pub(crate) const BYTE_ORDER: usize = 3;
        pub(crate) const BUFFER_CHUNKS: usize = 4;
        pub(crate) const TOTAL_LENGTH: usize = 5;
        pub(crate) const EXTERNAL_FILE: usize = 6;
        pub(crate) const IS_EXTERNAL: usize = 7;
        pub(crate) const APPENDED_DATA_OFFSET: usize = 8;
        pub(crate) const APPENDED_DATA_LENGTH: usize = 9;
    }

    pub(crate) static FLAT_VARIABLE: TableType = TableType {
        name: "FlatVariable",
        fields: &[
            FieldType { name: "id", kind: Kind::Table(&super::flat_graph::INT_PAIR) },
            FieldType { name: "name", kind: Kind::String },
            FieldType { name: "dtype", kind: Kind::I8 },
            FieldType { name: "shape", kind: Kind::I64s },
            FieldType { name: "ndarray", kind: Kind::Table(&super::flat_graph::FLAT_ARRAY) },
            FieldType { name: "device", kind: Kind::I32 },
            FieldType { name: "variable_type", kind: Kind::I8 },
            FieldType { name: "control_deps", kind: Kind::Strings },
            FieldType { name: "control_dep_for_op", kind: Kind::Strings },
            FieldType { name: "control_deps_for_var", kind: Kind::Strings },
        ],
    };

    /// The slots of [`FLAT_VARIABLE`].
    pub(crate) mod flat_variable {
        pub(crate) const ID: usize = 0;
        pub(crate) const NAME: usize = 1;
        pub(crate) const DTYPE: usize = 2;
        pub(crate) const SHAPE: usize = 3;
        pub(crate) const NDARRAY: usize = 4;
        pub(crate) const DEVICE: usize = 5;
        pub(crate) const VARIABLE_TYPE: usize = 6;
        pub(crate) const CONTROL_DEPS: usize = 7;
        pub(crate) const CONTROL_DEP_FOR_OP: usize = 8;
        pub(crate) const CONTROL_DEPS_FOR_VAR: usize = 9;
    }

    pub(crate) static FLAT_PROPERTIES: TableType = TableType {
        name: "FlatProperties",
        fields: &[
            FieldType { name: "name", kind: Kind::String },
            FieldType { name: "i", kind: Kind::I32s },
            FieldType { name: "l", kind: Kind::I64s },
            FieldType { name: "d", kind: Kind::F64s },
            FieldType { name: "a", kind: Kind::Tables(&super::flat_graph::FLAT_ARRAY) },
            FieldType { name: "b", kind: Kind::I8s },
            FieldType { name: "s", kind: Kind::Strings },
            FieldType { name: "shape", kind: Kind::I32s },
        ],
    };

    /// The slots of [`FLAT_PROPERTIES`].
    pub(crate) mod flat_properties {
        pub(crate) const NAME: usize = 0;
        pub(crate) const I: usize = 1;
        pub(crate) const L: usize = 2;
        pub(crate) const D: usize = 3;
        pub(crate) const A: usize = 4;
        pub(crate) const B: usize = 5;
        pub(crate) const S: usize = 6;
        pub(crate) const SHAPE: usize = 7;
    }

    pub(crate) static FLAT_NODE: TableType = TableType {
        name: "FlatNode",
        fields: &[
            FieldType { name: "id", kind: Kind::I32 },
            FieldType { name: "name", kind: Kind::String },
            FieldType { name: "op_type", kind: Kind::I8 },
            FieldType { name: "op_num", kind: Kind::I64 },
            FieldType { name: "properties", kind: Kind::Tables(&super::flat_graph::FLAT_PROPERTIES) },
            FieldType { name: "input", kind: Kind::I32s },
            FieldType { name: "input_paired", kind: Kind::Tables(&super::flat_graph::INT_PAIR) },
            FieldType { name: "output", kind: Kind::I32s },
            FieldType { name: "extra_params", kind: Kind::F64s },
            FieldType { name: "extra_integer", kind: Kind::I64s },
            FieldType { name: "extra_bools", kind: Kind::I8s },
            FieldType { name: "dimensions", kind: Kind::I32s },
            FieldType { name: "device", kind: Kind::I32 },
            FieldType { name: "scope_id", kind: Kind::I32 },
            FieldType { name: "scope_name", kind: Kind::String },
            FieldType { name: "output_names", kind: Kind::Strings },
            FieldType { name: "op_name", kind: Kind::String },
            FieldType { name: "output_types", kind: Kind::I8s },
            FieldType { name: "scalar", kind: Kind::Table(&super::flat_graph::FLAT_ARRAY) },
            FieldType { name: "control_deps", kind: Kind::Strings },
            FieldType { name: "var_control_deps", kind: Kind::Strings },
            FieldType { name: "control_dep_for", kind: Kind::Strings },
            FieldType { name: "extra_types", kind: Kind::I8s },
        ],
    };

    /// The slots of [`FLAT_NODE`].
    pub(crate) mod flat_node {
        pub(crate) const ID: usize = 0;
        pub(crate) const NAME: usize = 1;
        pub(crate) const OP_TYPE: usize = 2;
        pub(crate) const OP_NUM: usize = 3;
        pub(crate) const PROPERTIES: usize = 4;
        pub(crate) const INPUT: usize = 5;
        pub(crate) const INPUT_PAIRED: usize = 6;
        pub(crate) const OUTPUT: usize = 7;
        pub(crate) const EXTRA_PARAMS: usize = 8;
        pub(crate) const EXTRA_INTEGER: usize = 9;
        pub(crate) const EXTRA_BOOLS: usize = 10;
        pub(crate) const DIMENSIONS: usize = 11;
        pub(crate) const DEVICE: usize = 12;
        pub(crate) const SCOPE_ID: usize = 13;
        pub(crate) const SCOPE_NAME: usize = 14;
        pub(crate) const OUTPUT_NAMES: usize = 15;
        pub(crate) const OP_NAME: usize = 16;
        pub(crate) const OUTPUT_TYPES: usize = 17;
        pub(crate) const SCALAR: usize = 18;
        pub(crate) const CONTROL_DEPS: usize = 19;
        pub(crate) const VAR_CONTROL_DEPS: usize = 20;
        pub(crate) const CONTROL_DEP_FOR: usize = 21;
        pub(crate) const EXTRA_TYPES: usize = 22;
    }

    pub(crate) static FLAT_CONFIGURATION: TableType = TableType {
        name: "FlatConfiguration",
        fields: &[
            FieldType { name: "id", kind: Kind::I64 },
            FieldType { name: "execution_mode", kind: Kind::I8 },
            FieldType { name: "profiling_mode", kind: Kind::I8 },
            FieldType { name: "output_mode", kind: Kind::I8 },
            FieldType { name: "timestats", kind: Kind::I8 },
            FieldType { name: "footprint_forward", kind: Kind::I64 },
            FieldType { name: "footprint_backward", kind: Kind::I64 },
            FieldType { name: "direction", kind: Kind::I8 },
        ],
    };

    /// The slots of [`FLAT_CONFIGURATION`].
    pub(crate) mod flat_configuration {
        pub(crate) const ID: usize = 0;
        pub(crate) const EXECUTION_MODE: usize = 1;
        pub(crate) const PROFILING_MODE: usize = 2;
        pub(crate) const OUTPUT_MODE: usize = 3;
        pub(crate) const TIMESTATS: usize = 4;
        pub(crate) const FOOTPRINT_FORWARD: usize = 5;
        pub(crate) const FOOTPRINT_BACKWARD: usize = 6;
        pub(crate) const DIRECTION: usize = 7;
    }

    pub(crate) static UPDATER_STATE: TableType = TableType {
        name: "UpdaterState",
        fields: &[
            FieldType { name: "param_name", kind: Kind::String },
            FieldType { name: "updater_state_keys", kind: Kind::Strings },
            FieldType { name: "updater_state_values", kind: Kind::Tables(&super::flat_graph::FLAT_ARRAY) },
        ],
    };

    /// The slots of [`UPDATER_STATE`].
    pub(crate) mod updater_state {
        pub(crate) const PARAM_NAME: usize = 0;
        pub(crate) const UPDATER_STATE_KEYS: usize = 1;
        pub(crate) const UPDATER_STATE_VALUES: usize = 2;
    }

    pub(crate) static SUB_INSTANCE: TableType = TableType {
        name: "SubInstance",
        fields: &[
        ],
    };

    /// The slots of [`SUB_INSTANCE`].
    pub(crate) mod sub_instance {
    }

    pub(crate) static FLAT_GRAPH: TableType = TableType {
        name: "FlatGraph",
        fields: &[
            FieldType { name: "id", kind: Kind::I64 },
            FieldType { name: "variables", kind: Kind::Tables(&super::flat_graph::FLAT_VARIABLE) },
            FieldType { name: "nodes", kind: Kind::Tables(&super::flat_graph::FLAT_NODE) },
            FieldType { name: "outputs", kind: Kind::Tables(&super::flat_graph::INT_PAIR) },
            FieldType { name: "configuration", kind: Kind::Table(&super::flat_graph::FLAT_CONFIGURATION) },
            FieldType { name: "placeholders", kind: Kind::Strings },
            FieldType { name: "loss_variables", kind: Kind::Strings },
            FieldType { name: "training_config", kind: Kind::String },
            FieldType { name: "updater_state", kind: Kind::Tables(&super::flat_graph::UPDATER_STATE) },
            FieldType { name: "metadata_keys", kind: Kind::Strings },
            FieldType { name: "metadata_values", kind: Kind::Strings },
            FieldType { name: "sub_instances", kind: Kind::Tables(&super::flat_graph::SUB_INSTANCE) },
        ],
    };

    /// The slots of [`FLAT_GRAPH`].
    pub(crate) mod flat_graph {
        pub(crate) const ID: usize = 0;
        pub(crate) const VARIABLES: usize = 1;
        pub(crate) const NODES: usize = 2;
        pub(crate) const OUTPUTS: usize = 3;
        pub(crate) const CONFIGURATION: usize = 4;
        pub(crate) const PLACEHOLDERS: usize = 5;
        pub(crate) const LOSS_VARIABLES: usize = 6;
        pub(crate) const TRAINING_CONFIG: usize = 7;
        pub(crate) const UPDATER_STATE: usize = 8;
        pub(crate) const METADATA_KEYS: usize = 9;
        pub(crate) const METADATA_VALUES: usize = 10;
        pub(crate) const SUB_INSTANCES: usize = 11;
    }
}

pub(crate) mod samediff {
    use crate::fb::{FieldType, Kind, TableType};

    pub(crate) static FLAT_ARRAY: TableType = TableType {
        name: "FlatArray",
        fields: &[
            FieldType { name: "shape", kind: Kind::I64s },
            FieldType { name: "buffer", kind: Kind::Payload },
            FieldType { name: "dtype", kind: Kind::I8 },
            FieldType { name: "byte_order", kind: Kind::I8 },
        ],
    };

    /// The slots of [`FLAT_ARRAY`].
    pub(crate) mod flat_array {
        pub(crate) const SHAPE: usize = 0;
        pub(crate) const BUFFER: usize = 1;
        pub(crate) const DTYPE: usize = 2;
        pub(crate) const BYTE_ORDER: usize = 3;
    }

    pub(crate) static VARIABLE: TableType = TableType {
        name: "Variable",
        fields: &[
            FieldType { name: "name", kind: Kind::String },
            FieldType { name: "dtype", kind: Kind::I8 },
            FieldType { name: "var_type", kind: Kind::I8 },
            FieldType { name: "shape", kind: Kind::I64s },
            FieldType { name: "classic", kind: Kind::Table(&super::flat_graph::FLAT_VARIABLE) },
        ],
    };

    /// The slots of [`VARIABLE`].
    pub(crate) mod variable {
        pub(crate) const NAME: usize = 0;
        pub(crate) const DTYPE: usize = 1;
        pub(crate) const VAR_TYPE: usize = 2;
        pub(crate) const SHAPE: usize = 3;
        pub(crate) const CLASSIC: usize = 4;
    }

    pub(crate) static OPERATION: TableType = TableType {
        name: "Operation",
        fields: &[
            FieldType { name: "name", kind: Kind::String },
            FieldType { name: "op_name", kind: Kind::String },
            FieldType { name: "op_type", kind: Kind::I8 },
            FieldType { name: "op_num", kind: Kind::I64 },
            FieldType { name: "inputs", kind: Kind::Strings },
            FieldType { name: "outputs", kind: Kind::Strings },
            FieldType { name: "i_arg_names", kind: Kind::Strings },
            FieldType { name: "i_args", kind: Kind::I64s },
            FieldType { name: "t_arg_names", kind: Kind::Strings },
            FieldType { name: "t_args", kind: Kind::F64s },
            FieldType { name: "b_arg_names", kind: Kind::Strings },
            FieldType { name: "b_args", kind: Kind::I8s },
            FieldType { name: "d_arg_names", kind: Kind::Strings },
            FieldType { name: "d_args", kind: Kind::I8s },
            FieldType { name: "classic", kind: Kind::Table(&super::flat_graph::FLAT_NODE) },
        ],
    };

    /// The slots of [`OPERATION`].
    pub(crate) mod operation {
        pub(crate) const NAME: usize = 0;
        pub(crate) const OP_NAME: usize = 1;
        pub(crate) const OP_TYPE: usize = 2;
        pub(crate) const OP_NUM: usize = 3;
        pub(crate) const INPUTS: usize = 4;
        pub(crate) const OUTPUTS: usize = 5;
        pub(crate) const I_ARG_NAMES: usize = 6;
        pub(crate) const I_ARGS: usize = 7;
        pub(crate) const T_ARG_NAMES: usize = 8;
        pub(crate) const T_ARGS: usize = 9;
        pub(crate) const B_ARG_NAMES: usize = 10;
        pub(crate) const B_ARGS: usize = 11;
        pub(crate) const D_ARG_NAMES: usize = 12;
        pub(crate) const D_ARGS: usize = 13;
        pub(crate) const CLASSIC: usize = 14;
    }

    pub(crate) static GRAPH: TableType = TableType {
        name: "Graph",
        fields: &[
            FieldType { name: "variables", kind: Kind::Tables(&super::samediff::VARIABLE) },
            FieldType { name: "operations", kind: Kind::Tables(&super::samediff::OPERATION) },
            FieldType { name: "loss_variables", kind: Kind::Strings },
            FieldType { name: "format_version", kind: Kind::I32 },
            FieldType { name: "classic", kind: Kind::Table(&super::flat_graph::FLAT_GRAPH) },
        ],
    };

    /// The slots of [`GRAPH`].
    pub(crate) mod graph {
        pub(crate) const VARIABLES: usize = 0;
        pub(crate) const OPERATIONS: usize = 1;
        pub(crate) const LOSS_VARIABLES: usize = 2;
        pub(crate) const FORMAT_VERSION: usize = 3;
        pub(crate) const CLASSIC: usize = 4;
    }

    pub(crate) static TRAINING_CONFIG: TableType = TableType {
        name: "TrainingConfig",
        fields: &[
            FieldType { name: "json", kind: Kind::String },
        ],
    };

    /// The slots of [`TRAINING_CONFIG`].
    pub(crate) mod training_config {
        pub(crate) const JSON: usize = 0;
    }
}
