//! Test messages that TensorFlow wrote.

/// Paths of the messages in `tests/data/tensorflow`, each with the full name of its type.
pub const MESSAGES: [(&str, &str); 6] = [
    ("functions_consts/saved_model.pb", SAVED_MODEL),
    ("keras_mlp/saved_model.pb", SAVED_MODEL),
    ("lookup_strings/saved_model.pb", SAVED_MODEL),
    ("tf1_two_metagraphs/saved_model.pb", SAVED_MODEL),
    ("graphdef_dtypes/graph.pb", GRAPH_DEF),
    ("graphdef_frozen_cnn/graph.pb", GRAPH_DEF),
];

const GRAPH_DEF: &str = "tensorflow.GraphDef";
const SAVED_MODEL: &str = "tensorflow.SavedModel";
