"""Processes that run a model when asked to: Heddle's `bench --turns`, and peers likewise.
usage: python turns.py MODEL INPUTS.npz THREADS ort|spin|openvino

That is a peer: ONNX Runtime, whose threads sleep or spin while they wait, or OpenVINO. A line with a number asks for that many runs; a line with their times in ms,
as JSON, answers it. Needs numpy and the peer."""
import json
import subprocess
import sys
import time

import numpy as np


class Turns:
    """A process that has a model ready, and runs it when it is asked to."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(part) for part in command], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ready = self.answer()

    @classmethod
    def heddle(cls, heddle, model, inputs, threads=None, within=(), options=()):
        """Heddle, with as many threads as it chooses; `within` is put before the command, `options`
        behind it."""
        some = ["--threads", threads] if threads else []
        return cls([*within, heddle, "bench", model, "--input", inputs, "--turns", *some,
                    *options])

    @classmethod
    def peer(cls, model, inputs, threads, peer):
        """A peer by its name."""
        return cls([sys.executable, __file__, model, inputs, threads, peer])

    def ask(self, count):
        """Begins so many runs."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()

    def answer(self):
        """The next line, when it is there."""
        line = self.process.stdout.readline()
        if not line:
            command = " ".join(self.process.args)
            raise RuntimeError(f"`{command}` ended with status {self.process.wait()}")
        return json.loads(line)

    def run(self, count):
        """The times of so many runs, in milliseconds."""
        self.ask(count)
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


# ONNX Runtime's threads spin for 40 ms behind a run, and would take a core from the next program.
PAUSE = 0.1


def in_turns(starts, runs, turn):
    """Medians in ms of programs in turns, `turn` runs at a time, by the names of `starts`, which start them."""
    programs = {}
    try:
        for name, start in starts.items():
            programs[name] = start()
        measured = {name: [] for name in programs}
        for _ in range(max(1, runs // turn)):
            for name, program in programs.items():
                time.sleep(PAUSE)
                program.run(1)
                measured[name] += program.run(turn)
    finally:
        for program in programs.values():
            program.__exit__()
    return {name: float(np.median(all_)) for name, all_ in measured.items()}


def onnx_runtime(model, threads, peer):
    """ONNX Runtime as a function of inputs by name."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(peer == "spin")))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def openvino(model, threads, _):
    """OpenVINO in f32 as a function of inputs by name."""
    from openvino import Core
    how = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
           "INFERENCE_PRECISION_HINT": "f32"}
    request = Core().compile_model(model, "CPU", how).create_infer_request()
    return lambda feeds: request.infer(feeds, share_inputs=True)


def serve(model, inputs, threads, peer):
    """Answers for a peer until the input ends."""
    make = openvino if peer == "openvino" else onnx_runtime
    run = make(model, int(threads), peer)
    with np.load(inputs) as arrays:
        feeds = dict(arrays)
    run(feeds)
    print("{}", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            run(feeds)
            times.append((time.perf_counter() - begin) * 1e3)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    serve(*sys.argv[1:])
