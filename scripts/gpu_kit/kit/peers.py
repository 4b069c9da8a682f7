"""One system and one model in a process, which answers the race: ways of PyTorch, CUDA graphs, JAX, and Heddle.
usage: python peers.py WORK MODEL BATCH PEER cuda|cpu

It prepares the model, writes its results to WORK/MODEL_bBATCH.PEER.npz, and prints one line of JSON: {"prepare_s"}, {"no": why} or
{"absent"}, if the model has no such form. Then each line K on standard input is answered by the times of K runs in milliseconds; the
inputs are on the device. Products are in f32 everywhere: TF32 is off."""
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import zoo
from draw import save_data


class Absent(Exception):
    """The model has no such form: no failure."""


class Task:
    """A model with its data, and the device that it is to run on."""

    def __init__(self, work: Path, model: str, batch: int, device: str):
        self.work, self.model, self.batch, self.device = work, model, batch, device
        self.inputs, self.want, self.fixed = zoo.data(find(work, model, batch))
        self.cuda = device == "cuda"

    def module(self):
        """The model's module, for PyTorch on this device."""
        return zoo.load(self.model, self.device)

    def weights(self):
        """The weights as they were drawn."""
        with np.load(self.work / f"{self.model}.weights.npz") as arrays:
            return dict(arrays)

    def net(self, kind="Torch", **options):
        """A PyTorch module of the model, if it has this kind."""
        module = self.module()
        if not hasattr(module, kind):
            raise Absent
        return getattr(module, kind)(self.weights(), **options).eval().to(self.device)

    def tensors(self):
        """The inputs on the device."""
        import torch
        return [torch.from_numpy(np.asarray(value)).to(self.device) for value in self.inputs.values()]


def find(work: Path, model: str, batch: int) -> Path:
    """Inputs and references: those that `reference` computed, the inputs that were drawn here, or what came along."""
    name = f"{model}_b{batch}_s0"
    places = (work / f"{name}.reference.npz", work / f"{name}.npz")
    return next((place for place in places if place.exists()), zoo.HERE / "references" / f"{name}.npz")


# ---------------------------------------------------------------- peers: each returns run() -> outputs

def torch_run(task, net):
    """Calls a module, and waits for the device."""
    import torch
    tensors = task.tensors()
    wait = torch.cuda.synchronize if task.cuda else lambda: None

    def run():
        with torch.no_grad():
            outputs = net(*tensors)
        wait()
        return outputs
    return run


def torch_eager(task):
    """PyTorch, control flow in Python."""
    return torch_run(task, task.net())


def torch_builtin(task):
    """The framework's own layer: cuDNN's LSTM."""
    return torch_run(task, task.net("TorchBuiltin"))


def torch_levels(task):
    """A tree batched by hand, a product a level."""
    return torch_run(task, task.net("TorchLevels"))


def torch_step(task, **options):
    """The loop's body compiled, the loop in Python."""
    import torch
    net = task.net()
    if not hasattr(net, "step"):
        raise Absent
    net.step = torch.compile(net.step, **options)
    return torch_run(task, net)


def torch_step_reduce(task):
    """The same in CUDA graphs, whose results a step may overwrite; so each call begins a new one."""
    import torch
    net = task.net()
    if not hasattr(net, "step"):
        raise Absent
    compiled = torch.compile(net.step, mode="reduce-overhead")

    def step(*arguments):
        torch.compiler.cudagraph_mark_step_begin()
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, compiled(*arguments))
    net.step = step
    return torch_run(task, net)


def torch_compile(task, **options):
    """The whole model compiled."""
    import torch
    return torch_run(task, torch.compile(task.net(), **options))


def torch_reduce(task):
    """The whole model compiled, in CUDA graphs."""
    return torch_compile(task, mode="reduce-overhead")


def torch_graph(task):
    """One graph with torch.cond and while_loop, compiled."""
    import torch
    return torch_run(task, torch.compile(task.net("TorchGraph"), fullgraph=True))


def warm(task, kind="Torch", **options):
    """A module that has run, on a queue of its own, as a capture wants it."""
    import torch
    net, tensors = task.net(kind, **options), task.tensors()
    plain = task.net()
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(2):
            plain(*tensors)
    torch.cuda.synchronize()
    return net, tensors


def captured(task, kind="Torch", mode=None, **options):
    """A run of PyTorch as one CUDA graph."""
    import torch
    net, tensors = warm(task, kind, **options)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph), mode or contextlib.nullcontext():
        outputs = net(*tensors)

    def run():
        graph.replay()
        torch.cuda.synchronize()
        return outputs
    return run


def cuda_graph(task):
    """The eager model as one CUDA graph; what asks the device in between cannot be captured."""
    return captured(task)


def cuda_graph_traced(task):
    """The decisions of this one input built in, as one CUDA graph."""
    if not task.fixed:
        raise Absent
    return captured(task, fixed=task.fixed)


def torch_nodes(task):
    """PyTorch's own conditional nodes, where it has them."""
    try:
        from torch._higher_order_ops.cudagraph_conditional_nodes import CUDAGraphCaptureControlFlowOpDispatchMode
    except ImportError:
        import torch
        raise RuntimeError(f"PyTorch {torch.__version__} has no conditional nodes") from None
    return captured(task, "TorchGraph", CUDAGraphCaptureControlFlowOpDispatchMode())


def nodes(task):
    """torch.cond and while_loop as conditional nodes, by nodes.py."""
    import torch
    from nodes import Recorder
    net, tensors = warm(task, "TorchGraph")
    recorder = Recorder.on_gpu()
    sys.modules[type(net).__module__].while_loop = recorder.while_loop
    torch.cond = recorder.cond
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        outputs = recorder.record(net, tensors)
    start = recorder.graph.ready()

    def run():
        start()
        torch.cuda.synchronize()
        return outputs
    return run


def jax_jit(task, fixed=None):
    """JAX, control flow in lax."""
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_default_matmul_precision", "highest")
    module = zoo.load(task.model)
    arrange = getattr(module, "jax_weights", None)
    if arrange is None:
        from common import jax_weights as arrange
    weights = jax.tree.map(jnp.asarray, arrange(task.weights()))
    inputs = [jnp.asarray(value) for value in task.inputs.values()]
    function = jax.jit(lambda w, *ins: module.run_jax(w, *ins, fixed=fixed), keep_unused=True)
    return lambda: jax.block_until_ready(function(weights, *inputs))


def jax_nodes(task):
    """The same, with loops and branches as conditional nodes of CUDA graphs."""
    return jax_jit(task)


def heddle(task, kind=None):
    """Heddle: `run` for the outputs, `bench --turns` for the times."""
    import onnx
    found = sorted(task.work.glob(f"{task.model}_*_b{task.batch}.onnx"))
    plain = [path for path in found if path.stem.split("_")[-2] not in ("builtin", "recursive")]
    found = plain if kind is None else [path for path in found if path.stem.split("_")[-2] == kind]
    if not found:
        raise Absent
    given = task.work / f"{found[0].stem}.heddle.in.npz"
    out = task.work / f"{found[0].stem}.heddle.out.npz"
    np.savez(given, **task.inputs)
    common = [found[0], "--input", given, "--device", task.device]
    done = subprocess.run([zoo.HERE / "heddle", "run", *common, "--output", out], capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("error")] or done.stderr.splitlines()
        raise RuntimeError((said or [f"exit status {done.returncode}"])[0])
    names = [o.name for o in onnx.load(found[0], load_external_data=False).graph.output]
    with np.load(out) as arrays:
        outputs = [arrays[name] for name in names]
    process = subprocess.Popen([zoo.HERE / "heddle", "bench", *common, "--turns"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, bufsize=1)
    if not process.stdout.readline():
        raise RuntimeError("`heddle bench --turns` ended")

    def run():
        return outputs

    def many(count):
        process.stdin.write(f"{count}\n")
        return json.loads(process.stdout.readline())
    run.many = many
    return run


def heddle_recursive(task):
    """Heddle on the model as a function that calls itself."""
    return heddle(task, "recursive")


def heddle_builtin(task):
    """Heddle on ONNX's own operator in place of the loop."""
    return heddle(task, "builtin")


def reference(task):
    """Eager PyTorch in float64, whose outputs are the references of batches that have none."""
    import torch
    module, net = task.module(), task.net().to(torch.float64)
    tensors = [t.to(torch.float64) if t.is_floating_point() else t for t in task.tensors()]
    with torch.no_grad():
        outputs = [value.cpu().numpy() for value in net(*tensors)]
    made = task.work / f"{task.model}_b{task.batch}_s0.reference.npz"
    part = made.with_name(f"part.{made.name}")
    # Other peers read it as soon as it has its name.
    save_data(part, task.inputs, outputs, module.fixed(task.inputs, outputs))
    part.replace(made)
    return lambda: outputs


PEERS = {f.__name__.replace("_", "-"): f for f in (
    heddle, heddle_recursive, heddle_builtin, torch_eager, cuda_graph, torch_builtin, nodes, torch_nodes, torch_levels, torch_compile,
    torch_reduce, torch_step, torch_step_reduce, torch_graph, jax_jit, jax_nodes, cuda_graph_traced)}
ON_GPU = ("cuda-graph", "nodes", "torch-nodes", "torch-reduce", "torch-step-reduce", "jax-nodes", "cuda-graph-traced")
BOUNDS = ("cuda-graph-traced",)  # no control flow left: no contender
OWN = ("heddle", "heddle-recursive", "heddle-builtin")


def settings(peer: str, device: str):
    """What has to be set before a framework is imported."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if peer.startswith("torch-") and peer not in ("torch-eager", "torch-builtin", "torch-levels"):
        os.nice(5)  # compilers come after those that are soon ready
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        # Headers that a compiler has read beforehand pay for many models only.
        os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
    if peer == "jax-nodes":
        os.environ["XLA_FLAGS"] = ("--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,WHILE"
                                   " --xla_gpu_graph_min_graph_size=1")
    if not peer.startswith(("jax", "heddle")):
        import torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def on_host(value) -> np.ndarray:
    """An output as an array of NumPy."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def first_line(error: BaseException) -> str:
    """Kind of the error, and the first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = f"{type(error).__name__}: {lines[0]}"
    return text if len(text) < 300 else text[:200] + " … " + text[-90:]


def main(work: Path, model: str, batch: int, peer: str, device: str):
    """Prepares the peer, then answers."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the peer prints

    def say(value):
        print(json.dumps(value), file=out, flush=True)
    if device == "cpu" and peer in ON_GPU:
        return say({"no": "needs a GPU; this is a dry run"})
    begin = time.perf_counter()
    try:
        settings(peer, device)
        run = (reference if peer == "reference" else PEERS[peer])(Task(work, model, batch, device))
        outputs = [on_host(value) for value in run()]
        np.savez(work / f"{model}_b{batch}.{peer}.npz", *outputs)
        say({"prepare_s": round(time.perf_counter() - begin, 2)})
    except Absent:
        return say({"absent": True})
    except ModuleNotFoundError as error:
        return say({"no": f"the Python module {error.name} is missing"})
    except BaseException as error:  # a peer may end in any way, and is listed with it
        return say({"no": first_line(error)})
    for line in sys.stdin:
        if hasattr(run, "many"):
            say(run.many(int(line)))
            continue
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
        say(times)
    return None


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
