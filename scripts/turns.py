"""Processes that run a model when asked to: Heddle's `bench --turns`, and ONNX Runtime likewise.
usage: python turns.py MODEL INPUTS.npz THREADS spin|sleep

That is ONNX Runtime. A line with a number asks for that many runs; a line with their times in ms,
as JSON, answers it. Needs numpy and onnxruntime."""
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
    def onnx_runtime(cls, model, inputs, threads, spin):
        """ONNX Runtime; its threads may spin while they wait for work."""
        how = "spin" if spin else "sleep"
        return cls([sys.executable, __file__, model, inputs, threads, how])

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


def serve(model, inputs, threads, how):
    """Answers for ONNX Runtime until the input ends."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(how == "spin")))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with np.load(inputs) as arrays:
        feeds = dict(arrays)
    print("{}", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            session.run(None, feeds)
            times.append((time.perf_counter() - begin) * 1e3)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    serve(*sys.argv[1:])
