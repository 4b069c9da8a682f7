"""A second opinion on the programs that ONNX Runtime refuses, such as every recursive one: control
flow and calls are executed here, each other node by onnx's reference evaluator on its own."""
import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Evaluator:
    """Runs one model; values live in one dict for each scope, subgraphs see a copy of the outer."""

    def __init__(self, model):
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.main, self.kernels = model.graph, {}

    def run(self, inputs):
        """The main graph's outputs."""
        return self.graph(self.main, inputs, {}, {})

    def graph(self, graph, arguments, outer, bodies):
        """A graph's outputs. `bodies` are the Recursion bodies in scope: name -> (graph, scope)."""
        scope = outer | {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        defaults = {t.name for t in graph.initializer}
        for info, value in zip(graph.input, arguments, strict=True):
            if value is not None or info.name not in defaults:
                scope[info.name] = value
        self.nodes(graph.node, scope, bodies)
        return [scope[info.name] for info in graph.output]

    def nodes(self, nodes, scope, bodies):
        """Executes the nodes in order, into `scope`."""
        for node in nodes:
            values = [scope[name] if name else None for name in node.input]
            results = self.node(node, values, scope, bodies)
            scope.update((name, r) for name, r in zip(node.output, results) if name)

    def node(self, node, values, scope, bodies):
        """One node's outputs."""
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "If":
            branch = "then_branch" if values[0].item() else "else_branch"
            return self.graph(attributes[branch], [], scope, bodies)
        if node.op_type == "Loop":
            return self.loop(attributes["body"], *values[:2], values[2:], scope, bodies)
        if node.op_type == "Scan":
            first = len(values) - attributes["num_scan_inputs"]
            return self.scan(attributes["body"], values[:first], values[first:], scope, bodies)
        if node.op_type == "Recursion":
            body = attributes["body"]
            return self.graph(body, values, scope, bodies | {body.name: (body, scope)})
        if node.op_type in bodies and not node.domain:
            return self.graph(bodies[node.op_type][0], values, bodies[node.op_type][1], bodies)
        function = self.functions.get((node.domain, node.op_type))
        if function:
            inner = dict(zip(function.input, values))
            self.nodes(function.node, inner, {})
            return [inner[name] for name in function.output]
        key = node.SerializeToString()
        if key not in self.kernels:
            self.kernels[key] = ReferenceEvaluator(node, opsets={"": 17})
        feeds = {name: v for name, v in zip(node.input, values) if name}
        return self.kernels[key].run(None, feeds)

    def loop(self, body, trips, condition, state, scope, bodies):
        """Loop as the specification's pseudo-code has it."""
        count, step, stacks = len(state), 0, [[] for _ in body.output[1 + len(state):]]
        while (trips is None or step < trips) and (condition is None or condition):
            arguments = [np.int64(step), np.array(True), *state]
            go, *results = self.graph(body, arguments, scope, bodies)
            condition = None if condition is None else go
            state, step = results[:count], step + 1
            for stack, value in zip(stacks, results[count:], strict=True):
                stack.append(value)
        return [*state, *map(stacked, stacks, body.output[1 + count:])]

    def scan(self, body, state, sequences, scope, bodies):
        """Scan of opset 9 and later, along the first axes and forwards."""
        count, stacks = len(state), [[] for _ in body.output[len(state):]]
        for elements in zip(*sequences, strict=True):
            results = self.graph(body, [*state, *elements], scope, bodies)
            state = results[:count]
            for stack, value in zip(stacks, results[count:], strict=True):
                stack.append(value)
        return [*state, *map(stacked, stacks, body.output[count:])]


def stacked(values, info):
    """The values along a new first axis; an empty result has the declared static shape."""
    if values:
        return np.stack(values)
    tensor = info.type.tensor_type
    shape = (0, *(dim.dim_value for dim in tensor.shape.dim))
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
