"""Saving captured constants as variables, so that TensorFlow can save the loaded model again.

When TensorFlow saves a model, each tensor that a function captures becomes a constant of the graph.
If these constants reach 2 GiB in total, TensorFlow without this package can't save the loaded model
again. Variables don't have this limit, since they are saved in a checkpoint. Therefore, this module
replaces captured constants with variables, but only in the saved model: the functions of the
program keep capturing tensors. In the saved model, a function that captures a tensor becomes a
function that captures the variable, reads it, and calls the original function with its value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from ._capture import Saving, bytes_of, current_save, is_uniform, large_value

#: Name of the root's child, in a saved model, that has the variables.
_CHILD = "_proto_splitter_variables"

#: Name of the root's child, in an externalized model, that fills variables after loading.
_EXTERNALIZED = "_proto_splitter_constants"

#: Name of a resource's function, which runs before variables are restored.
_CREATE = "_create_resource"

#: Name of the node that calls the original function, in a function that reads variables.
_CALL = "proto_splitter_call"

#: Attributes that aren't copied to a function that reads variables, since they identify the result
#: of the original function, rather than its implementation.
_NOT_OF_READERS = ("api_implements",)


def saveable_view(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for ``_SaveableView.__init__`` that adds variables for constants."""

    def __init__(self: Any, augmented_graph_view: Any, options: Any) -> None:
        from tensorflow.python.eager import context

        save = current_save()
        if save is not None and save.has_variables and context.executing_eagerly():
            if not options.experimental_skip_saver:
                _add_variables(augmented_graph_view, save)
        original(self, augmented_graph_view, options)

    return __init__


class _Captured:
    """A captured constant, with the objects that own it and its name in each owner."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant
        self.owners: list[tuple[Any, str]] = []


def _add_variables(view: Any, save: Saving) -> None:
    """Replaces captured constants with variables, in a view of the objects to save.

    The variables become children of a new child of the root.
    """
    from tensorflow.python.trackable import autotrackable

    variables: dict[str, Any] = {}
    holder = autotrackable.AutoTrackable()
    _forget_filled(view)
    for captured in _captured(view):
        tensor = captured.constant.capture
        array = large_value(tensor, save.settings.min_size)
        # If all elements are equal, TensorFlow saves only one. For float8 types, TensorFlow lacks
        # the necessary operations.
        if array is None or is_uniform(array) or tensor.dtype.name.startswith("float8"):
            continue
        key = _key(array)
        if key not in variables:
            variables[key] = _variable(tensor, key)
            save.variables_size += array.nbytes
            setattr(holder, f"constant_{len(variables) - 1}", variables[key])
        _export_with(variables[key], tensor)
        # In the saved model, the variable takes the place of the constant in each owner.
        for owner, name in captured.owners:
            view._children_cache[owner][name] = variables[key]
    _forget_unreachable(view)
    if not variables:
        return
    children = view._children_cache[view.root]
    name, number = _CHILD, 0
    # A loaded model may already have a child with this name.
    while name in children:
        number += 1
        name = f"{_CHILD}_{number}"
    children[name] = holder
    if save.settings.progress:
        save.settings.progress(0, save.variables_size)


def _captured(view: Any) -> Iterable[_Captured]:
    """Returns the constants captured only by functions that run after variables are restored."""
    from tensorflow.python.eager import function
    from tensorflow.python.eager.polymorphic_function.saved_model_utils import TrackableConstant

    objects, _ = view._breadth_first_traversal()
    found: dict[int, _Captured] = {}
    early: set[int] = set()
    for owner in objects:
        for child in view.list_children(owner):
            if child.name == _CREATE:
                early.update(id(inner.ref) for inner in view.list_children(child.ref))
                early.add(id(child.ref))
            if isinstance(child.ref, TrackableConstant):
                one = found.setdefault(id(child.ref), _Captured(child.ref))
                one.owners.append((owner, child.name))

    def may_be_read(captured: _Captured) -> bool:
        return all(
            isinstance(owner, function.ConcreteFunction) and id(owner) not in early
            for owner, _ in captured.owners
        )

    return filter(may_be_read, found.values())


def _forget_filled(view: Any) -> None:
    """Removes the objects of externalized models that fill variables, if they have none to fill.

    If all constants of such a model were captured, they are saved as variables. Then, without these
    objects, the files with the constants aren't saved again as assets.
    """
    from tensorflow.python.trackable import resource

    objects, _ = view._breadth_first_traversal()
    for owner in objects:
        children = {child.name: child.ref for child in view.list_children(owner)}
        child = children.get(_EXTERNALIZED)
        if not isinstance(child, resource.CapturableResource):
            continue
        graph = getattr(getattr(child, "_initialize", None), "graph", None)
        if graph is None:
            continue
        definition = graph.as_graph_def()
        bodies = [definition.node, *(one.node_def for one in definition.library.function)]
        if not any(node.op == "RestoreV2" for body in bodies for node in body):
            del view._children_cache[owner][_EXTERNALIZED]
    _forget_unreachable(view)


def _forget_unreachable(view: Any) -> None:
    """Removes objects from a view if the root no longer refers to them, directly or indirectly."""
    from tensorflow.python.checkpoint import graph_view

    # The view overrides this method, but the override requires that all objects are in its cache.
    reachable, _ = graph_view.ObjectGraphView._breadth_first_traversal(view)
    stay = {id(one) for one in reachable}
    for one in list(view._children_cache.keys()):
        if id(one) not in stay:
            del view._children_cache[one]


def _key(array: Any) -> str:
    """Returns a name for an array's contents. Equal names mean equal arrays, in all models."""
    hashed = hashlib.blake2b(f"{array.dtype.name} {array.shape}".encode(), digest_size=16)
    hashed.update(bytes_of(array))
    return hashed.hexdigest()


def _variable(tensor: Any, key: str) -> Any:
    """Returns a variable that shares a tensor's memory."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import resource_variable_ops

    # `tf.Variable` isn't used, since a strategy for several devices would make it create an object
    # of another class.
    with ops.init_scope(), ops.device("CPU:0"):
        return resource_variable_ops.ResourceVariable(
            tensor, trainable=False, name=f"proto_splitter_variables/{key}"
        )


def _export_with(variable: Any, tensor: Any) -> None:
    """Makes the saved graph read the variable in all functions that capture the tensor."""
    original = variable._export_to_saved_model_graph

    def _export_to_saved_model_graph(
        object_map: Any = None, tensor_map: Any = None, options: Any = None, **unused: Any
    ) -> list[Any]:
        exported: list[Any] = original(
            object_map=object_map, tensor_map=tensor_map, options=options, **unused
        )
        tensor_map[tensor] = object_map[variable].read_value()
        return [*exported, tensor]

    variable._export_to_saved_model_graph = _export_to_saved_model_graph


def read_in_functions(saved_model: Any) -> None:
    """Adds a function that reads variables, for each function that captures their values.

    The graph of the saved model keeps calling the original function, with the values. The objects
    that ``tf.saved_model.load`` returns call the added function, with the variables.
    """
    from tensorflow.python.framework import meta_graph as meta_graphs

    for meta_graph in saved_model.meta_graphs:
        if _add_readers(meta_graph):
            ops = meta_graphs.stripped_op_list_for_graph(meta_graph.graph_def)
            meta_graph.meta_info_def.stripped_op_list.CopyFrom(ops)


def _add_readers(meta_graph: Any) -> dict[str, str]:
    """Adds the functions that read variables to a graph.

    Returns the name of each added function, by the name of the original function.
    """
    from tensorflow.core.framework import types_pb2

    objects, library = meta_graph.object_graph_def, meta_graph.graph_def.library
    functions = {function.signature.name: function for function in library.function}
    # Each name must end with a number: fingerprints require it, and loaders remove it.
    numbers = [name.rpartition("_")[2] for name in functions]
    number = max((int(one) for one in numbers if one.isdecimal()), default=0)
    readers: dict[str, str] = {}
    for name in sorted(objects.concrete_functions):
        concrete, original = objects.concrete_functions[name], functions[name]
        first = len(original.signature.input_arg) - len(concrete.bound_inputs)
        shapes = {
            first + at: objects.nodes[node].variable.shape
            for at, node in enumerate(concrete.bound_inputs)
            if objects.nodes[node].WhichOneof("kind") == "variable"
            and original.signature.input_arg[first + at].type != types_pb2.DT_RESOURCE
        }
        if not shapes:
            continue
        number += 1
        base, _, end = name.rpartition("_")
        readers[name] = f"{base if end.isdecimal() else name}_{number}"
        library.function.append(_reader(original, readers[name], shapes))
        objects.concrete_functions[readers[name]].CopyFrom(concrete)
        del objects.concrete_functions[name]
    for node in objects.nodes:
        kind = node.WhichOneof("kind")
        if kind == "function":
            names = [readers.get(one, one) for one in node.function.concrete_functions]
            del node.function.concrete_functions[:]
            node.function.concrete_functions.extend(names)
        elif kind == "bare_concrete_function":
            bare = node.bare_concrete_function
            bare.concrete_function_name = readers.get(
                bare.concrete_function_name, bare.concrete_function_name
            )
    for gradient in library.registered_gradients:
        gradient.gradient_func = readers.get(gradient.gradient_func, gradient.gradient_func)
    aliases = meta_graph.meta_info_def.function_aliases
    for name, reader in readers.items():
        if name in aliases:
            aliases[reader] = aliases[name]
            del aliases[name]
    return readers


def _reader(original: Any, name: str, shapes: dict[int, Any]) -> Any:
    """Returns a function that reads some of its arguments from variables, and calls ``original``.

    Args:
        original: The function to call with all arguments.
        name: The name of the returned function.
        shapes: The shapes of the variables, by index of the argument.
    """
    from tensorflow.core.framework import types_pb2

    made = type(original)()
    made.signature.CopyFrom(original.signature)
    made.signature.name = name
    made.signature.is_stateful = True
    for key, value in original.attr.items():
        if key not in _NOT_OF_READERS:
            made.attr[key].CopyFrom(value)
    for at, attributes in original.arg_attr.items():
        made.arg_attr[at].CopyFrom(attributes)
    inputs = []
    for at, argument in enumerate(made.signature.input_arg):
        if at not in shapes:
            inputs.append(argument.name)
            continue
        read = made.node_def.add(name=f"{argument.name}/proto_splitter_read", op="ReadVariableOp")
        read.input.append(argument.name)
        read.attr["dtype"].type = argument.type
        read.attr["_output_shapes"].list.shape.add().CopyFrom(shapes[at])
        inputs.append(f"{read.name}:value:0")
        argument.handle_data.add(dtype=argument.type).shape.CopyFrom(shapes[at])
        argument.type = types_pb2.DT_RESOURCE
        _set_scalar(made.attr, "_input_shapes", at)
        if at in made.arg_attr:
            _set_scalar(made.arg_attr[at].attr, "_output_shapes", 0)
    is_stateful = original.signature.is_stateful
    call = made.node_def.add(
        name=_CALL, op="StatefulPartitionedCall" if is_stateful else "PartitionedCall"
    )
    call.input.extend(inputs)
    for key, arguments in (
        ("Tin", original.signature.input_arg),
        ("Tout", original.signature.output_arg),
    ):
        call.attr[key].list.SetInParent()
        call.attr[key].list.type.extend(argument.type for argument in arguments)
    call.attr["f"].func.name = original.signature.name
    if "_XlaMustCompile" in original.attr:
        call.attr["_XlaMustCompile"].CopyFrom(original.attr["_XlaMustCompile"])
    # A function without results may have side effects, so its call is a control output.
    del made.signature.control_output[:]
    made.signature.control_output.append(_CALL)
    made.control_ret.clear()
    made.control_ret[_CALL] = _CALL
    made.ret.clear()
    for at, result in enumerate(original.signature.output_arg):
        made.ret[result.name] = f"{_CALL}:output:{at}"
    return made


def _set_scalar(attributes: Any, key: str, at: int) -> None:
    """Sets the shape of an argument in an attribute, if there is one, to that of a scalar.

    An argument that was a variable's value is now the variable's handle, which is a scalar.
    """
    if key in attributes and at < len(attributes[key].list.shape):
        attributes[key].list.shape[at].Clear()
