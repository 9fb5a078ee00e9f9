"""Runs one of twelve small programs and lets XLA dump it: programs.py NAME FOLDER. Or writes a profile of a program, or its
executable and an entry of the compilation cache: programs.py profile FOLDER, programs.py executable FOLDER."""

import os
import sys


def main() -> None:
    name, folder = sys.argv[1:]
    os.environ["JAX_PLATFORMS"] = "cpu"
    if name not in ("profile", "executable"):
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={folder} --xla_dump_hlo_as_riegeli --xla_dump_hlo_as_proto"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    random = np.random.default_rng(11)

    def array(*shape: int) -> np.ndarray:
        return random.random(shape, dtype="f4")

    weights = [array(30 + at, 31 + at) for at in range(5)]

    def layers(x):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    def kinds(x):
        return [x.astype(kind) for kind in ("bfloat16", "float16", "int8", "uint16", "complex64", "bool")]

    programs = {
        "product": (lambda x: jax.nn.relu(x @ weights[0]), array(2, 30)),
        "layers": (layers, array(2, 30)),
        "kinds": (kinds, array(7)),
        "constants": (lambda x: x + np.arange(9, dtype="i4") * np.array([True] * 9), np.ones(9, "i4")),
        "loop": (lambda n: lax.fori_loop(0, n, lambda at, sum: sum * 1.5 + at, 1.0), 5),
        "scan": (lambda xs: lax.scan(lambda sum, x: (sum + x, sum * x), jnp.zeros(8), xs), array(9, 8)),
        "branches": (lambda at: lax.switch(at, [jnp.sin, jnp.cos, lambda x: x * 2], 0.5), 1),
        "sorted": (lambda x: jnp.sort(x, axis=-1), array(4, 33)),
        "transform": (jnp.fft.rfft, array(4, 32)),
        "gradient": (jax.grad(lambda x: jnp.sum(layers(x) ** 2)), array(2, 30)),
        "image": (
            lambda x: lax.conv_general_dilated(
                x, weights[1].reshape(-1)[:216].reshape(3, 3, 3, 8), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            array(1, 16, 16, 3),
        ),
        "values": (lambda x: jnp.linalg.svd(x @ x.T, full_matrices=False), array(6, 6)),
    }
    if name == "list":
        print(*programs)
    elif name == "profile":
        function, argument = programs["layers"]
        function = jax.jit(function)
        with jax.profiler.trace(folder):
            for _ in range(3):
                function(argument).block_until_ready()
    elif name == "executable":
        function, argument = programs["constants"]
        jax.config.update("jax_compilation_cache_dir", f"{folder}/cache")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        compiled = jax.jit(function).lower(argument).compile()
        with open(f"{folder}/cpu.aot", "wb") as file:
            file.write(compiled.runtime_executable().serialize())
    else:
        function, argument = programs[name]
        jax.block_until_ready(jax.jit(function)(argument))


main()
