"""ONNX models of any size and form: an ``.onnx`` of any size, a ``.cpb``, or a pair.

A pair is an ``.onnx`` with files that contain its external data. ``session`` runs a model of any of
these forms in onnxruntime without writing a file::

    import proto_splitter.onnx as pso

    session = pso.session("model.cpb")
    session.run(None, {"x": x})

For a model of any of these forms, ``as_path`` returns a path that other tools accept. ``run`` calls
a tool with this path, and converts the model that the tool produces to any form::

    with pso.as_path("model.cpb") as path:
        onnx.checker.check_model(path)

``load`` and ``save`` need the package ``onnx``; ``session`` needs ``onnxruntime`` as well.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _files, _functions, _handle, _messages, _models
from ._onnx_paths import INPUT, OUTPUT, SKELETON, as_path, run
from ._parts import field_of, merge_part, merge_parts

if TYPE_CHECKING:
    import onnxruntime
    from onnx import ModelProto

    from ._files import Source, Target

__all__ = [
    "INPUT",
    "LoadedModel",
    "OUTPUT",
    "SKELETON",
    "as_path",
    "convert",
    "load",
    "run",
    "save",
    "session",
]

#: Initializers smaller than this, in bytes, stay in the message that onnxruntime parses: 1 KiB.
_SMALL = 1 << 10
#: Alignment, in bytes, of initializers in the buffer that sessions share.
_ALIGNMENT = 64
#: Names by which onnxruntime finds buffers that replace files. Each model gets a different name.
_IN_MEMORY = map("proto_splitter_in_memory_{}".format, itertools.count())
#: The first version of onnxruntime that uses a buffer's initializers without copying them.
_BORROWS = (1, 31)

#: Total size of initializers, in bytes, from which weights aren't packed by default: 1 GiB.
_PACKED_BELOW = 1 << 30
#: The session option that prevents onnxruntime from packing copies of weights.
_UNPACKED = "session.disable_prepacking"

#: Extension of files that may have an ONNX model in their header.
_EMBEDDED = ".safetensors"

convert = _models.convert


def load(path: Source) -> ModelProto:
    """Loads a model of any size and form, with all its tensors, like ``onnx.load``.

    External data is found only if the model is given by its path, and not as bytes, as an object
    with ``read`` and ``seek`` or as a URL.

    Raises:
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
        google.protobuf.message.DecodeError: If the file isn't a model.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import external_data_helper

    model = onnx.ModelProto()
    if _files.is_path(path) and os.fspath(path).endswith(_EMBEDDED):
        with _handle.open(path) as file:
            merge_parts(model, file, below="graph")
        return model
    try:
        _functions.merge_into(path, model)
    except DecodeError as error:
        # protobuf's error names the type of the message, but not the file.
        raise DecodeError(f"{_files.name_of(path)}: {error}") from None
    folder = _folder(path)
    if folder is not None:
        external_data_helper.load_external_data_for_model(model, folder)
    return model


def _folder(source: Source) -> str | None:
    """Returns the folder of a model's file; ``None`` if the model isn't given by its path."""
    return os.path.dirname(os.path.abspath(source)) if _files.is_path(source) else None


def save(
    model: ModelProto, path: Target, *, to: str = "auto", force: bool = False
) -> dict[str, Any]:
    """Saves a model of any size, like ``onnx.save``.

    Args:
        model: The model, with all its tensors in memory.
        path: The file to write, by path or URL: a ``.cpb`` for a chunked file, otherwise an
            ``.onnx``. If the result is a single file, ``path`` may also be an object with
            ``write``, whose ``name`` determines the form.
        to: A form of ``protosplit convert``, such as ``external``; ``auto`` for one file if
            ``onnx`` can read it, otherwise for a pair. A ``.cpb`` has no other forms.
        force: Overwrites an existing file.

    Returns:
        The report of ``protosplit convert --json``; for a ``.cpb``, the keys ``path`` and ``size``,
        which is the size of the model's message in bytes.

    Raises:
        OSError: If the file can't be written; ``FileExistsError`` without ``force``.
        ValueError: If ``to`` is given for a ``.cpb``.
        Error: If the model can't be written in this form.
    """
    if _files.is_url(path) or _files.is_writer(path):
        with _files.written_to(path, force=force) as name:
            return save(model, name, to=to)
    name = os.fspath(path)
    if not force and os.path.exists(name):
        raise FileExistsError(17, os.strerror(17), name)
    if name.endswith(".cpb"):
        if to != "auto":
            raise ValueError(f"to={to!r}: a .cpb is a file in chunks")
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


class LoadedModel:
    """A model of any size and form, loaded once for any number of sessions of onnxruntime.

    The sessions share one buffer with the model's initializers. With onnxruntime 1.31 and later, an
    additional session needs no memory for weights, unless it packs copies of them::

        model = pso.LoadedModel("model.cpb")
        sessions = [model.session(prepack=False) for _ in range(4)]

    The buffer lives as long as the model or any of its sessions.
    """

    def __init__(self, path: Source | _handle.File) -> None:
        """Loads a model.

        Args:
            path: The model, as for :func:`session`.

        Raises:
            OSError: If the file doesn't exist.
            Error: If the file is damaged.
            SchemaError: If the model has a field that the installed ``onnx`` doesn't know.
            ValueError: If the model without its initializers is over 2 GiB.
        """
        import onnxruntime

        self._borrows = _version(onnxruntime) >= _BORROWS
        self._location = next(_IN_MEMORY)
        with _opened(path) as file:
            self._folder = (
                os.path.dirname(os.path.abspath(file.files[0])) if file.files else None
            )
            model, self._values = _taken_apart(file, self._location, with_packed=self._borrows)
            self._buffer = _read(file, self._values)
        self._model = model.SerializeToString()

    @property
    def nbytes(self) -> int:
        """The size of the initializers that sessions share, in bytes."""
        return int(self._buffer.nbytes)

    def __repr__(self) -> str:
        return f"<LoadedModel with {len(self._values)} shared initializers, {self.nbytes} bytes>"

    def session(
        self,
        sess_options: Any = None,
        providers: Any = None,
        *,
        prepack: bool | None = None,
        **options: Any,
    ) -> onnxruntime.InferenceSession:
        """Returns a session that uses the model's initializers.

        Args:
            sess_options: ``onnxruntime.SessionOptions``, to which the initializers are added.
            providers: As for ``InferenceSession``.
            prepack: As for :func:`session`.
            options: Any other argument of ``InferenceSession``.
        """
        import onnxruntime

        settings = onnxruntime.SessionOptions() if sess_options is None else sess_options
        kept: list[Any] = [self._buffer]
        if prepack is not None:
            settings.add_session_config_entry(_UNPACKED, "0" if prepack else "1")
        elif self.nbytes >= _PACKED_BELOW and not _has_entry(settings, _UNPACKED):
            settings.add_session_config_entry(_UNPACKED, "1")
        if self._values and self._borrows:
            try:
                settings.add_external_initializers_from_files_in_memory(
                    [self._location], [self._buffer], [self.nbytes]
                )
            except RuntimeError as error:
                # The options may already have the initializers from another session of this model.
                if "already been added" not in str(error):
                    raise
            settings.add_session_config_entry(
                "session.use_external_initializer_file_buffers_directly", "1"
            )
        elif self._values:
            given = [_ort_value(onnxruntime, self._buffer, value) for value in self._values]
            settings.add_external_initializers([value.name for value in self._values], given)
            kept.extend(given)
        # Other tensors of a pair, such as tensors in subgraphs, remain in their files.
        if self._folder is not None:
            settings.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", self._folder
            )
        made = onnxruntime.InferenceSession(
            self._model, settings, providers=providers, **options
        )
        # onnxruntime accesses these values as long as the session exists.
        made._proto_splitter_values = kept
        return made


def session(
    path: Source | _handle.File,
    sess_options: Any = None,
    providers: Any = None,
    *,
    prepack: bool | None = None,
    **options: Any,
) -> onnxruntime.InferenceSession:
    """Returns an ``onnxruntime.InferenceSession`` for a model of any size and form.

    Initializers are read into one buffer, and no file is written. onnxruntime 1.31 and later use
    the buffer directly; earlier versions copy the initializers, which doubles their memory.

    onnxruntime also makes packed copies of the weights of some operators, such as ``MatMul``. These
    take the same amount of memory again. By default, a model with initializers of 1 GiB or more
    isn't packed: its session is somewhat slower, and the last bits of its results differ from those
    of a session that packs. ``prepack``, or an entry ``session.disable_prepacking`` in
    ``sess_options``, overrides this default.

    For several sessions of one model, :class:`LoadedModel` shares the initializers among them.

    Args:
        path: The path of a ``.cpb``, of an ``.onnx`` of any size, or of the ``.onnx`` of a pair. A
            model in one file may also be bytes, an object with ``read`` and ``seek``, or a URL. Any
            model may also be an open file from :func:`proto_splitter.open`, which isn't closed.
        sess_options: ``onnxruntime.SessionOptions``, to which the initializers are added.
        providers: As for ``InferenceSession``.
        prepack: ``True`` packs weights, and ``False`` doesn't. By default, weights are packed if
            the initializers have less than 1 GiB in total.
        options: Any other argument of ``InferenceSession``.

    Raises:
        OSError: If the file doesn't exist.
        Error: If the file is damaged.
        SchemaError: If the model has a field that the installed ``onnx`` doesn't know.
        ValueError: If the model without its initializers is over 2 GiB.
    """
    return LoadedModel(path).session(sess_options, providers, prepack=prepack, **options)


def _opened(path: Source | _handle.File) -> AbstractContextManager[_handle.File]:
    """Returns a context manager for a model's file. A file that was opened before stays open."""
    import onnx

    if isinstance(path, _handle.File):
        return nullcontext(path)
    # For these extensions, the message's type is known. Other files don't always name their type.
    known = _files.is_path(path) and os.fspath(path).endswith((".onnx", _EMBEDDED))
    return _handle.open(path, *(() if known else _messages.schema_of(onnx.ModelProto)))


def _has_entry(settings: Any, key: str) -> bool:
    """Returns true if the options of a session contain a key."""
    try:
        settings.get_session_config_entry(key)
    except RuntimeError:
        return False
    return True


class _Value(NamedTuple):
    """An initializer in the buffer: its name, type and shape, and its byte range in the buffer."""

    name: str
    #: ONNX's number for the element type.
    kind: int
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def _version(package: Any) -> tuple[int, ...]:
    """Returns the major and minor version of a package."""
    return tuple(int(part) for part in package.__version__.split(".")[:2])


def _taken_apart(
    file: _handle.File, location: str, *, with_packed: bool
) -> tuple[Any, list[_Value]]:
    """Returns the model without its large initializers, and their positions in the buffer.

    In the model, these initializers refer to a file named ``location``, which the buffer replaces.
    """
    import onnx

    model = onnx.ModelProto()
    values: list[_Value] = []
    end = 0
    tensors = file.tensors
    for path, _ in file.fields():
        if field_of(path) != "graph":
            merge_part(model, file, path)
            continue
        for inner, _ in file.fields(path):
            if field_of(inner) != "initializer":
                merge_part(model.graph, file, inner)
                continue
            name, kind = file.get(f"{inner}.name"), file.get(f"{inner}.data_type")
            if name not in tensors or _is_odd(kind, with_packed):
                merge_part(model.graph, file, inner)
                continue
            shape, nbytes = tensors.info(name)[2:]
            if nbytes < _SMALL:
                merge_part(model.graph, file, inner)
                _bring_in(model.graph.initializer[-1], tensors, nbytes)
                continue
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = offset + nbytes
            values.append(_Value(name, kind, shape, offset, nbytes))
            bare = model.graph.initializer.add(name=name, data_type=kind, dims=shape)
            bare.data_location = onnx.TensorProto.EXTERNAL
            where = {"location": location, "offset": str(offset), "length": str(nbytes)}
            for key, value in where.items():
                bare.external_data.add(key=key, value=value)
    return model, values


def _bring_in(tensor: Any, tensors: _handle.Tensors, nbytes: int) -> None:
    """Reads the external data of a small tensor, if it has any, into the tensor.

    onnxruntime needs some small tensors, such as shapes, before it accesses the buffer.
    """
    import onnx

    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return
    data = bytearray(nbytes)
    tensors.get_into(tensor.name, data)
    tensor.raw_data = bytes(data)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _read(file: _handle.File, values: list[_Value]) -> Any:
    """Reads the initializers from a file into one array of bytes, whose start is aligned."""
    import numpy as np

    size = values[-1].offset + values[-1].nbytes if values else 0
    whole = np.empty(size + _ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    buffer = whole[start : start + size]
    tensors = file.tensors
    for value in values:
        tensors.get_into(value.name, buffer[value.offset : value.offset + value.nbytes])
    return buffer


def _is_odd(kind: int, with_packed: bool) -> bool:
    """Returns true if onnxruntime doesn't accept elements of this type from the buffer.

    onnxruntime rejects strings and, if it copies elements from NumPy, elements smaller than a byte.
    """
    import onnx

    names = ["STRING"]
    if not with_packed:
        names += ["UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2"]
    return kind in [getattr(onnx.TensorProto, name, None) for name in names]


def _ort_value(onnxruntime: Any, buffer: Any, value: _Value) -> Any:
    """Returns an ``OrtValue`` that refers to the buffer, or a copy in old onnxruntime versions."""
    from onnx import helper

    kind = helper.tensor_dtype_to_np_dtype(value.kind)
    array = buffer[value.offset : value.offset + value.nbytes].view(kind).reshape(value.shape)
    if kind.kind in "fiub":
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, value.kind)
