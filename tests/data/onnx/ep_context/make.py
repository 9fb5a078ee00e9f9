"""Writes a model that is compiled for onnxruntime's OpenVINO execution provider in both forms that
EPContext has: embedded.onnx, and external.onnx with a file of its own.

Needs onnx and onnxruntime-openvino 1.22.0; run as `python make.py embedded` and `python make.py external`.
"""

import sys

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

rng = np.random.default_rng(1)
weights = numpy_helper.from_array(rng.standard_normal((16, 16)).astype(np.float32), "w")
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])], "g",
    [helper.make_tensor_value_info("x", 1, [1, 16])], [helper.make_tensor_value_info("y", 1, [1, 16])], [weights])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
form = sys.argv[1]
options = onnxruntime.SessionOptions()
options.add_session_config_entry("ep.context_enable", "1")
options.add_session_config_entry("ep.context_file_path", f"./{form}.onnx")
options.add_session_config_entry("ep.context_embed_mode", str(int(form == "embedded")))
providers = [("OpenVINOExecutionProvider", {"device_type": "CPU"})]
onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
