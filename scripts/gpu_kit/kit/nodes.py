"""Control flow of PyTorch as conditional nodes of a CUDA graph, built through the driver: torch.cond and while_loop become IF and WHILE
nodes, and what is between them is captured by PyTorch in segments, which are child graphs.

Newer versions of PyTorch do this themselves, for `cond` or for both (the peer `torch-nodes`)."""
import ctypes

import torch

from driver import CONDITIONAL_IF, CONDITIONAL_WHILE, Driver, Graph, Nvrtc
from micro import conditions


class Recorder:
    """Records a function that calls `while_loop` and `cond` of this object into a graph; `decide` is the kernel that sets a condition, and
    `capture()` makes an empty segment."""

    def __init__(self, graph: Graph, decide, capture):
        self.graph, self.decide, self.capture = graph, decide, capture
        # Memory that the graph's nodes name, and segments, must live as long as the graph.
        self.kept, self.segment = [], None

    @classmethod
    def on_gpu(cls):
        """One whose segments are captured by PyTorch, and share memory."""
        driver, pool = Driver(), torch.cuda.graph_pool_handle()
        module = driver.module(conditions(Nvrtc(), driver.arch()))

        def capture():
            segment = torch.cuda.CUDAGraph(keep_graph=True)
            segment.capture_begin(pool=pool)
            return segment
        return cls(Graph(driver), driver.function(module, "decide"), capture)

    def record(self, function, arguments):
        """The outputs of the function, which each launch of the graph writes anew."""
        self.begin()
        outputs = function(*arguments)
        self.end()
        self.kept.append((arguments, outputs))
        return outputs

    def begin(self):
        """Begins a segment of captured operators."""
        self.segment = self.capture()

    def end(self):
        """Ends the segment, and adds it to the graph."""
        self.segment.capture_end()
        self.graph.child(self.segment.raw_cuda_graph())
        self.kept.append(self.segment)

    def set(self, handle, flag, negate=0):
        """Sets a condition to a bool on the device, or to its opposite."""
        self.kept.append(flag)
        self.graph.kernel(self.decide, 1, 1, handle, ctypes.c_uint64(flag.data_ptr()), ctypes.c_uint(negate))

    def while_loop(self, condition, body, carried, additional=()):
        """torch's `while_loop`."""
        state = [value.clone() for value in carried]
        flag = condition(*state, *additional).clone()
        self.end()
        outer, handle = self.graph, self.graph.condition(0)
        self.set(handle, flag)
        self.graph = outer.conditional(handle, CONDITIONAL_WHILE)
        self.begin()
        after = [value.clone() if any(value is old for old in state) else value for value in body(*state, *additional)]
        for old, new in zip(state, after, strict=True):
            old.copy_(new)
        flag.copy_(condition(*state, *additional))
        self.end()
        self.set(handle, flag)
        self.kept.append((state, after))
        self.graph = outer
        self.begin()
        return tuple(state)

    def cond(self, flag, true, false, operands=()):
        """torch's `cond`: two IF nodes, the second of which overwrites the results of the first."""
        flag = flag.clone()
        self.end()
        outer, results = self.graph, None
        for negate, branch in enumerate((true, false)):
            handle = outer.condition(0)
            self.set(handle, flag, negate)
            self.graph = outer.conditional(handle, CONDITIONAL_IF)
            self.begin()
            made = branch(*operands)
            if results is None:
                results = made
            else:
                for old, new in zip(torch.utils._pytree.tree_leaves(results), torch.utils._pytree.tree_leaves(made), strict=True):
                    old.copy_(new)
            self.end()
            self.kept.append(made)
            self.graph = outer
        self.begin()
        return results
