"""Writes the files of tests/data/samediff: models in the forms that other programs write, for the command's tests."""

import sys
from pathlib import Path

import numpy as np

import model as m

W = np.arange(6, dtype="f4").reshape(2, 3) / 2
B = np.array([-1, 300, 7], "i2")
TENSORS = {"w": ("F32", [2, 3], W.tobytes()), "b": ("I16", [3], B.tobytes())}


def files():
    """Returns the files by name. All contain the same model: a placeholder, a variable and a constant."""
    kinds = [("in", "FLOAT", m.PLACEHOLDER, [-1, 2]), ("w", "FLOAT", m.VARIABLE, [2, 3]), ("b", "INT16", m.CONSTANT, [3])]
    arrays = {"w": W, "b": B}

    def data(name, dtype, order="c", big=False):
        return m.encode(dtype, arrays[name], order, big) if name in arrays else None

    # Java writes arrays in big-endian order.
    classic = [(*kind, data(*kind[:2], big=True), {"big": True}) for kind in kinds]
    sdnb = m.sdnb_file([(*kind, data(*kind[:2], order="f"), "f") for kind in kinds], inline_below=8)
    return {
        "classic.fb": m.classic_file(classic),
        "model.sdnb": sdnb,
        "model.sdz": m.zip_bytes({"model.sdnb": sdnb}, {"model.sdnb"}),
        "tensors.safetensors": m.write_safetensors(TENSORS),
        # An archive in a different order, partly deflated, with the list of tags last and an unused file.
        "other.zip": m.zip_bytes(
            {
                "one/graph.fb": m.graph_file(kinds, []),
                "one/params.txt": "w 7\nb x\n",
                "one/params/7.fb": m.array_file("FLOAT", [2, 3], data("w", "FLOAT", "f", True), order="f", big=True),
                "one/params/9.fb": m.array_file("INT16", [3], data("b", "INT16")),
                "one/params/x.fb": m.array_file("INT16", [3], data("b", "INT16")),
                "tags.txt": "one",
            },
            {"one/graph.fb", "one/params/7.fb"},
        ),
    }


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
