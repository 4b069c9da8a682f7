"""The table of small programs: what each is made of, and how it becomes a case."""
from dataclasses import dataclass, field

TORCHSCRIPT, DYNAMO = "torchscript", "dynamo"


@dataclass
class Small:
    """One program. `make` gives a torch module, or a model with its results (see `by_hand.py`)."""
    name: str
    make: object
    # The inputs of each run; the first ones are what the exporter traces.
    runs: list
    # Dynamic axes of each input, by position: {axis: name}.
    axes: list = field(default_factory=list)
    exporters: tuple = (TORCHSCRIPT, DYNAMO)
    scripted: bool = False


TABLE: list[Small] = []


def small(runs, axes=(), exporters=(TORCHSCRIPT, DYNAMO), scripted=False):
    """Puts a module's class into the table, under its name in snake case."""
    def add(make):
        name = "".join("_" + c.lower() if c.isupper() else c for c in make.__name__).lstrip("_")
        kinds = (TORCHSCRIPT,) if scripted else exporters
        TABLE.append(Small(name, make, runs, list(axes), kinds, scripted))
        return make
    return add
