"""ONNX models of any size and form: in one file over 2 GiB, in a ``.cpb``, or as a pair.

A pair is an ``.onnx`` and the files that its external data is in. ``session`` runs a model of any
of these forms in onnxruntime, and writes no file for it::

    import proto_splitter.onnx as pso

    session = pso.session("model.cpb")
    session.run(None, {"x": x})

``load`` and ``save`` need the package ``onnx``, ``session`` needs ``onnxruntime`` as well.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from . import _functions, _handle, _messages, _models
from ._parts import field_of, merge_part

if TYPE_CHECKING:
    import onnxruntime
    from onnx import ModelProto

__all__ = ["convert", "load", "save", "session"]

Path = str | os.PathLike[str]

#: Initializers of fewer bytes stay in the model that onnxruntime parses: 1 KiB.
_SMALL = 1 << 10
#: A file by this name isn't looked for: the values are given by the tensors' names.
_IN_MEMORY = "proto_splitter_in_memory"

convert = _models.convert


def load(path: Path) -> ModelProto:
    """``onnx.load`` for a model of any size and form, with all its tensors.

    Raises:
        OSError: If there is no such file.
        Error: If it is damaged.
    """
    import onnx
    from onnx import external_data_helper

    model = onnx.ModelProto()
    _functions.merge_into(path, model)
    folder = os.path.dirname(os.path.abspath(path))
    external_data_helper.load_external_data_for_model(model, folder)
    return model


def save(
    model: ModelProto, path: Path, *, to: str = "auto", force: bool = False
) -> dict[str, Any]:
    """``onnx.save`` for a model of any size.

    Args:
        model: The model, whose tensors are in memory.
        path: The file to be written; ``.cpb`` for a chunked file, else ``.onnx``.
        to: A form of ``protosplit convert``, as ``external``; ``auto`` for one file if onnx can
            read that, else for a pair.
        force: Replaces a file that is in the way.

    Returns:
        What ``protosplit convert --json`` reports.

    Raises:
        OSError: If the file can't be written; ``FileExistsError`` without ``force``.
        Error: If the model can't be written in this form.
    """
    name = os.fspath(path)
    if not force and os.path.exists(name):
        raise FileExistsError(17, os.strerror(17), name)
    if name.endswith(".cpb"):
        prefix = name[: -len(".cpb")]
        written = _functions.split(
            model, prefix, profile="extended", always_chunked=True, force=force
        )
        return {"path": written.path, "size": written.source_size}
    folder = os.path.dirname(os.path.abspath(name))
    with tempfile.TemporaryDirectory(prefix=".proto_splitter-", dir=folder) as scratch:
        full = os.path.join(scratch, "model.onnx")
        pieces, spool = _messages.pieces_of(model)
        with spool, open(full, "xb") as file:
            _messages.write_pieces(pieces, spool, file)
        return _models.convert(full, name, to=to, force=force)


def session(
    path: Path, sess_options: Any = None, providers: Any = None, **options: Any
) -> onnxruntime.InferenceSession:
    """``onnxruntime.InferenceSession`` for a model of any size and form.

    Initializers are read into memory once, and given to onnxruntime where they are; no file is
    written. onnxruntime packs the weights of some operators anew, which takes their memory again:
    ``session.disable_prepacking`` in ``sess_options`` keeps it from that, at some cost in time.

    Args:
        path: A ``.cpb``, an ``.onnx`` of any size, or the ``.onnx`` of a pair.
        sess_options: ``onnxruntime.SessionOptions``, to which the initializers are added.
        providers: As ``InferenceSession`` has it.
        options: Any other argument of ``InferenceSession``.

    Raises:
        OSError: If there is no such file.
        Error: If it is damaged.
        ValueError: If what stays in the model is over 2 GiB.
    """
    import onnx
    import onnxruntime

    settings = onnxruntime.SessionOptions() if sess_options is None else sess_options
    # An .onnx is known by its name; of another file the type isn't always in it.
    known = os.fspath(path).endswith(".onnx")
    with _handle.open(path, *(() if known else _messages.schema_of(onnx.ModelProto))) as file:
        model, values = _taken_apart(file)
    given = {name: _ort_value(onnxruntime, *value) for name, value in values.items()}
    if given:
        settings.add_external_initializers(list(given), list(given.values()))
    # Other tensors of a pair, as those in subgraphs, are where they were.
    folder = os.path.dirname(os.path.abspath(path))
    settings.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", folder
    )
    data = model.SerializeToString()
    made = onnxruntime.InferenceSession(data, settings, providers=providers, **options)
    # onnxruntime looks into these as long as it runs.
    made._proto_splitter_values = (given, values)
    return made


def _taken_apart(file: _handle.File) -> tuple[Any, dict[str, tuple[Any, int]]]:
    """The model without its large initializers, and these by their names."""
    import onnx

    model = onnx.ModelProto()
    values: dict[str, tuple[Any, int]] = {}
    tensors = file.tensors
    for path, _ in file.fields():
        if field_of(path) != "graph":
            merge_part(model, file, path)
            continue
        for inner, size in file.fields(path):
            if field_of(inner) != "initializer":
                merge_part(model.graph, file, inner)
                continue
            name, kind = file.get(f"{inner}.name"), file.get(f"{inner}.data_type")
            is_outside = size < _SMALL and _is_external(file, inner)
            if name not in tensors or not (is_outside or size >= _SMALL) or _is_odd(kind):
                merge_part(model.graph, file, inner)
                continue
            array = tensors[name]
            values[name] = (array, kind)
            bare = model.graph.initializer.add(name=name, data_type=kind, dims=array.shape)
            bare.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", _IN_MEMORY), ("length", str(array.nbytes))):
                bare.external_data.add(key=key, value=value)
    return model, values


def _is_external(file: _handle.File, path: str) -> bool:
    import onnx

    tensor = file.message(path, onnx.TensorProto)
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def _is_odd(kind: int) -> bool:
    """Whether NumPy holds the elements otherwise than onnxruntime: texts, and less than a byte."""
    import onnx

    names = ("STRING", "UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2")
    return kind in [getattr(onnx.TensorProto, name, None) for name in names]


def _ort_value(onnxruntime: Any, array: Any, kind: int) -> Any:
    if array.dtype.kind in "fiub":
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)
