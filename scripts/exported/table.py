"""The table of small programs: what each is made of, and how it becomes a case."""
from dataclasses import dataclass, field

TORCHSCRIPT, DYNAMO = "torchscript", "dynamo"
TF, JAX, SKLEARN = "tf2onnx", "jax2onnx", "skl2onnx"


@dataclass
class Small:
    """One program. `make` gives a torch module or, given its framework, what `foreign.py` exports."""
    name: str
    make: object
    # The inputs of each run; the first ones are what the exporter traces.
    runs: list
    # Dynamic axes of each input, by position: {axis: name}.
    axes: list = field(default_factory=list)
    exporters: tuple = (TORCHSCRIPT, DYNAMO)
    scripted: bool = False
    # Declare the shapes of outputs and values.
    ranks: bool = True


TABLE: list[Small] = []


def small(runs, axes=(), exporters=(TORCHSCRIPT, DYNAMO), scripted=False, ranks=True):
    """Puts a module's class into the table, under its name in snake case."""
    def add(make):
        name = "".join("_" + c.lower() if c.isupper() else c for c in make.__name__).lstrip("_")
        kinds = (TORCHSCRIPT,) if scripted else exporters
        TABLE.append(Small(name, make, runs, list(axes), kinds, scripted, ranks))
        return make
    return add


def traced(exporter, runs, shapes):
    """Puts a function of another framework into the table: inputs have these shapes, in which
    `None` or a name stands for any size."""
    def add(make):
        TABLE.append(Small(make.__name__, make, runs, list(shapes), (exporter,)))
        return make
    return add
