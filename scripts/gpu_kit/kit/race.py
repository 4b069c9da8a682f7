"""Part `race`: the models at batch 1 and 64 beside their peers, in turns.
usage: python race.py RESULTS WORK [--dry-run] [--seconds S]

Writes RESULTS/times.json. A row is a model and a batch; rows go in waves, whose peers prepare side by side and then take turns of about
0.2 s, one row at a time, so that nobody compiles while others are measured. Results are compared first: a peer whose results are wrong is
not timed. A peer that refuses a model, or takes too long, is listed with what it says."""
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import report
import zoo
from peers import BOUNDS, OWN, PEERS, find
from right import environment

TOLERANCE = 1e-3  # of the relative error of a peer's results
TURN_MS, ROW_SECONDS, RUNS = 200.0, 5.0, 60
# Batch 1 first. The last number is the part of all time in which a wave's peers may prepare.
WAVES = ((1, ("lstm", "seq2seq", "attention"), 0.16), (1, ("rae", "nasrnn", "blockdrop", "skipnet"), 0.18),
         (64, ("lstm", "seq2seq", "attention"), 0.13), (64, ("nasrnn", "blockdrop"), 0.13))
SMALL = ((1, ("small",), 0.4), (4, ("small",), 0.4))

# What a model's text has where it has a form for a peer.
FORMS = {"torch-builtin": "class TorchBuiltin", "torch-levels": "class TorchLevels", "torch-step": "def step(",
         "torch-step-reduce": "def step(", "torch-graph": "class TorchGraph", "torch-nodes": "class TorchGraph",
         "nodes": "class TorchGraph", "heddle-recursive": "build_recursive", "heddle-builtin": "build_builtin"}


class Peer:
    """A process of peers.py."""

    def __init__(self, env, work: Path, model: str, batch: int, name: str, device: str):
        self.model, self.batch, self.name, self.work = model, batch, name, work
        self.times, self.spent, self.result = [], 0.0, None
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, zoo.HERE / "peers.py", work, model, str(batch), name, device], env=env, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)

    def read(self, deadline: float, what: str):
        """The next line, or that there is none in time."""
        left = max(deadline - time.monotonic(), 0)
        if select.select([self.process.stdout], [], [], left)[0]:
            line = self.process.stdout.readline()
            if line:
                return json.loads(line)
            self.log.seek(0)
            tail = [text.strip() for text in self.log if text.strip()]
            return {"no": f"the process ended with {self.process.wait()}: {tail[-1][:200] if tail else 'it says nothing'}"}
        return {"no": f"took too long to {what}"}

    def prepared(self, deadline: float, seconds: float):
        """Waits until it is ready, and compares its results."""
        self.result = self.read(deadline, f"prepare: over {seconds:.0f} s")
        if "prepare_s" in self.result and self.name != "reference":
            with np.load(self.work / f"{self.model}_b{self.batch}.{self.name}.npz") as arrays:
                got = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
            self.result["error"] = zoo.relative_error(got, zoo.data(find(self.work, self.model, self.batch))[1])
            if not self.result["error"] <= TOLERANCE:
                self.result["no"] = f"wrong results: relative error {self.result['error']:.1e}"
        if "no" in self.result or "absent" in self.result:
            self.close()

    def turn(self, deadline: float):
        """One run that warms up, and about 0.2 s of timed ones."""
        last = self.times[-1] if self.times else TURN_MS
        count = max(1, min(RUNS // 3, int(TURN_MS / max(last, 1e-3))))
        try:
            self.process.stdin.write(f"{count + 1}\n")
            answer = self.read(time.monotonic() + 10, "run: over 10 s")
        except OSError as error:
            answer = {"no": f"the process ended: {error.strerror}"}
        if isinstance(answer, dict):
            self.result = answer
            self.close()
            return
        self.times += answer[1:]
        self.spent += sum(answer) / 1e3

    def done(self) -> bool:
        """No more turns."""
        return "no" in self.result or "absent" in self.result or len(self.times) >= RUNS or self.spent > ROW_SECONDS / 5

    def close(self):
        """Ends the process."""
        self.process.kill()
        self.process.wait()

    def summary(self) -> dict:
        """Its times or its refusal."""
        if not self.times or "no" in self.result:
            return self.result
        return self.result | {"median_ms": statistics.median(self.times), "min_ms": min(self.times),
                              "max_ms": max(self.times), "runs": len(self.times)}


def forms(model: str) -> list[str]:
    """Peers for which the model's text has a form, so that no process starts to find out that there is none."""
    text = zoo.text(model)
    return [name for name in PEERS if FORMS.get(name, "") in text]


def wave(env, work: Path, device: str, rows, prepare: float, deadline: float):
    """Prepares and measures some rows; yields (model, batch, results by peer)."""
    limit = min(time.monotonic() + prepare, deadline)
    references = [Peer(env, work, model, batch, "reference", device) for model, batch in rows
                  if not zoo.data(find(work, model, batch))[1]]
    # A trace is of the decisions that a reference takes.
    peers = [Peer(env, work, model, batch, name, device) for model, batch in rows for name in forms(model) if name not in BOUNDS]
    for peer in references:
        peer.prepared(limit, prepare)
        peer.close()
    broken = {(peer.model, peer.batch): peer.result["no"] for peer in references if "no" in peer.result}
    peers += [Peer(env, work, model, batch, name, device) for model, batch in rows for name in forms(model) if name in BOUNDS]
    for peer in peers:
        if (peer.model, peer.batch) in broken:
            peer.result = {"no": f"there is no reference: {broken[peer.model, peer.batch]}"}
            peer.close()
        else:
            peer.prepared(limit, prepare)
    try:
        for model, batch in rows:
            some = [peer for peer in peers if (peer.model, peer.batch) == (model, batch)]
            end = min(deadline, time.monotonic() + ROW_SECONDS)
            while time.monotonic() < end and any(not peer.done() for peer in some):
                for peer in some:
                    if not peer.done() and time.monotonic() < end:
                        peer.turn(end)
            yield model, batch, {peer.name: peer.summary() for peer in some if "absent" not in peer.result}
            for peer in some:
                peer.close()
    finally:
        for peer in peers:
            peer.close()


def ratio(results) -> tuple:
    """(Heddle's best, the best peer's name and time, the quotient), where there are both."""
    times = {name: result["median_ms"] for name, result in results.items() if "median_ms" in result and "no" not in result}
    own = min((times[name] for name in OWN if name in times), default=None)
    others = {name: value for name, value in times.items() if name not in OWN and name not in BOUNDS}
    best = min(others, key=others.get, default=None)
    return own, best, others.get(best), others[best] / own if own and best else None


def refusals(rows) -> list[str]:
    """A line for each peer and message, with the models that it is about."""
    said = {}
    for row in rows:
        for name, result in row["peers"].items():
            if "no" in result:
                said.setdefault((name, result["no"]), []).append(f"{row['model']} {row['batch']}")
    return [f"refused by {name}, {', '.join(models)}: {text}" for (name, text), models in said.items()]


def main(results: Path, work: Path, dry: bool, seconds: float) -> int:
    """Runs all waves that there is time for."""
    deadline = time.monotonic() + seconds
    env, device, rows = environment(work), "cpu" if dry else "cuda", []
    names = ["small"] if dry or not zoo.names() else zoo.names()
    for batch, models, part in SMALL if names == ["small"] else WAVES:
        drawn = {name: json.loads((work / f"{name}.drawn").read_text())["batches"] for name in models
                 if name in names and (work / f"{name}.drawn").exists()}
        chosen = [(name, batch) for name in models if batch in drawn.get(name, ())]
        if time.monotonic() > deadline - 5 or not chosen:
            rows += [{"model": name, "batch": batch, "peers": {}, "no": "no time was left"} for name, _ in chosen]
            continue
        for model, size, by_peer in wave(env, work, device, chosen, seconds * part, deadline):
            rows.append({"model": model, "batch": size, "peers": by_peer})
            report.write(results / "times.json", {"device": device, "rows": rows})
            for name, result in by_peer.items():
                print(f"{model} {size} {name}: " + (result.get("no") or f"{result.get('median_ms', float('nan')):.4g} ms, "
                      f"error {result['error']:.0e}, prepared in {result['prepare_s']} s"), flush=True)
    report.write(results / "times.json", {"device": device, "rows": rows})
    cells, quotients, notes = [], [], []
    for row in rows:
        own, best, other, quotient = ratio(row["peers"])
        quotients += [quotient] if quotient and row["batch"] == 1 else []
        cells.append((f"{row['model']} {row['batch']}", f"{own:.4g}" if own else row.get("no", "none"),
                      f"{other:.4g} {best}" if best else "none", f"{quotient:.2f}" if quotient else "",
                      sum("no" in result for result in row["peers"].values())))
        times = {name: result["median_ms"] for name, result in row["peers"].items() if "median_ms" in result}
        notes.append(f"{row['model']} {row['batch']}: " + ", ".join(f"{name} {times[name]:.4g}" for name in sorted(times, key=times.get)))
    notes += refusals(rows)
    mean = f"; geometric mean at batch 1 {statistics.geometric_mean(quotients):.2f}" if quotients else ""
    report.table(work, "race", f"{len(cells)} rows{mean}", ("model, batch", "Heddle ms", "best peer ms", "ratio", "refused"), cells,
                 notes)
    return 0 if cells and all(ratio(row["peers"])[0] for row in rows) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(report.part(main, __doc__, ("seconds", 230.0)))
