"""Checks `as_path` and `run` of `proto_splitter.onnx`: the files that tools get for every form, and the results that are saved."""

import contextlib
import io
import os
import shutil

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, version_converter

import proto_splitter.onnx as pso
from proto_splitter import _onnx_paths


def refused(error, do, text=""):
    try:
        do()
    except error as found:
        assert text in str(found), found
        return
    raise AssertionError("the call wasn't refused")


def forms(model, work):
    """Writes the model in every form. Returns the forms by name."""
    at = os.path.join(work, "forms")
    os.mkdir(at)
    found = {"a message": model}
    for name, file, to in (("one file", "one.onnx", "onnx"), ("chunks", "chunked.cpb", "auto"), ("a pair", "pair.onnx", "external"),
                           ("one safetensors file", "embedded.safetensors", "onnx-safetensors"), ("shards", "shards.onnx", "safetensors")):
        found[name] = os.path.join(at, file)
        pso.save(model, found[name], to=to)
    with open(found["chunks"], "rb") as file:
        found["bytes"] = file.read()
    found["an object like a file"] = io.BytesIO(found["bytes"])
    found["a URL"] = "file://" + found["chunks"]
    # The caches of model hubs use symbolic links, and stores that deduplicate files use hard links.
    for name, link in (("symbolic links", os.symlink), ("hard links", os.link)):
        folder = os.path.join(at, name.replace(" ", "-"))
        os.mkdir(folder)
        for file in ("pair.onnx", "pair.onnx.data"):
            shutil.copy(os.path.join(at, file), os.path.join(folder, file + ".blob"))
            # The target of a symbolic link is relative to the link.
            link(file + ".blob" if link is os.symlink else os.path.join(folder, file + ".blob"), os.path.join(folder, file))
        found[name] = os.path.join(folder, "pair.onnx")
    return found


def values(model):
    return {one.name: numpy_helper.to_array(one).tobytes() for one in model.graph.initializer}


def check_paths(checks, work, model):
    temporary = os.path.join(work, "temporary")
    os.mkdir(temporary)
    for size in (None, 8, 8):
        dimension = model.graph.output[0].type.tensor_type.shape.dim.add()
        dimension.dim_param = "rows"
        if size is not None:
            dimension.dim_value = size
    made = forms(model, work)
    expected = values(model)
    for name, source in made.items():
        for to in ("auto", "external"):
            with checks.check(f"{name}: as a path, {to}"):
                with pso.as_path(source, to=to, folder=temporary) as path:
                    assert values(onnx.load(path)) == expected
                    onnx.checker.check_model(path, full_check=True)
                    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
                    assert to == "auto" or len(os.listdir(os.path.dirname(path))) > 1
                assert os.listdir(temporary) == []
    with checks.check("a model that tools accept isn't copied"):
        for name in ("one file", "a pair"):
            with pso.as_path(made[name]) as path:
                assert path == made[name]
            assert os.path.exists(path)
    with checks.check("hard links instead of copies"):
        with pso.as_path(made["symbolic links"], hard_links=True, folder=temporary) as path:
            blob = made["symbolic links"] + ".data.blob"
            assert os.path.samefile(os.path.join(os.path.dirname(path), "pair.onnx.data"), blob)
            onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        assert os.path.exists(blob)
    with checks.check("one file over the limit becomes a pair"):
        most = _onnx_paths._MOST
        _onnx_paths._MOST = 1000
        try:
            with pso.as_path(made["one file"], folder=temporary) as path:
                assert path != made["one file"] and values(onnx.load(path)) == expected
        finally:
            _onnx_paths._MOST = most
    with checks.check("no files are left after an exception"):
        def fails(path):
            assert os.path.exists(path)
            raise KeyError(path)

        refused(KeyError, lambda: pso.run(fails, made["chunks"], folder=temporary))
        with contextlib.suppress(KeyError), pso.as_path(made["chunks"], folder=temporary):
            raise KeyError
        refused(FileNotFoundError, lambda: pso.run(fails, os.path.join(work, "missing.onnx"), folder=temporary))
        assert os.listdir(temporary) == []
    check_run(checks, work, made, expected)


def check_run(checks, work, made, expected):
    def copy(source, target, suffix=""):
        model = onnx.load(source)
        model.producer_name = "copy" + suffix
        onnx.save(model, target, save_as_external_data=True, location="copied.bin")

    chunks = made["chunks"]
    with checks.check("a tool's output is converted to any form"):
        for name, to in (("made.cpb", "auto"), ("made.onnx", "auto"), ("pair.onnx", "external"), ("made.safetensors", "onnx-safetensors")):
            output = os.path.join(work, "made-" + name)
            pso.run(copy, chunks, pso.INPUT, pso.OUTPUT, suffix="!", output=output, to=to)
            found = pso.load(output)
            assert values(found) == expected and found.producer_name == "copy!"
            refused(FileExistsError, lambda: pso.run(copy, chunks, pso.INPUT, pso.OUTPUT, output=output))
            pso.run(copy, chunks, pso.OUTPUT, output=output, to=to, force=True)
            assert pso.load(output).producer_name == "copy"
        target = io.BytesIO()
        pso.run(copy, chunks, target=pso.OUTPUT, output=target)
        assert values(onnx.load_from_string(target.getvalue())) == expected
    with checks.check("without an output a tool's model is returned"):
        assert values(pso.run(copy, made["a message"], pso.OUTPUT)) == expected
        assert values(pso.run(onnx.load, chunks)) == expected
    with checks.check("a tool that takes a message gets one without the data"):
        def converted(model):
            assert max(len(one.raw_data) for one in model.graph.initializer) < 1024
            return version_converter.convert_version(model, 22)

        here = os.getcwd()
        for source in (chunks, made["a message"], made["a pair"]):
            found = pso.run(converted, source, pso.SKELETON)
            assert values(found) == expected and found.opset_import[0].version == 22
            assert not any(one.external_data for one in found.graph.initializer)
        output = os.path.join(work, "converted.cpb")
        pso.run(converted, chunks, pso.SKELETON, output=output)
        assert values(pso.load(output)) == expected
        assert os.getcwd() == here
    with checks.check("a tool that is a command"):
        output = os.path.join(work, "by-command.cpb")
        pso.run(["cp", pso.INPUT, pso.OUTPUT], chunks, output=output)
        assert values(pso.load(output)) == expected
        assert pso.run(["test", "-f"], chunks).returncode == 0
        refused(Exception, lambda: pso.run(["false", pso.INPUT], chunks), "non-zero exit status 1")
    with checks.check("a tool that produces no model"):
        assert pso.run(os.path.getsize, chunks) > 1000
        refused(ValueError, lambda: pso.run(os.path.getsize, chunks, output=os.path.join(work, "none.cpb")), "the tool wrote no model")
        assert not os.path.exists(os.path.join(work, "none.cpb"))
