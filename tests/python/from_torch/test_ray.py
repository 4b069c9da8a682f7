"""The programs of examples/ray, where Ray is installed."""

import os
import sys
from pathlib import Path

import pytest

# Ray Data gives its coordinator five seconds to answer, and gives up after ten times; beside other tests it takes longer to begin.
os.environ.setdefault("RAY_DATA_AUTOSCALING_COORDINATOR_REQUEST_GET_TIMEOUT_S", "60")

torch = pytest.importorskip("torch")
pytest.importorskip("malt")
ray = pytest.importorskip("ray")

import heddle  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture(scope="module")
def cluster():
    folders = [str(EXAMPLES / "ray"), str(EXAMPLES / "python")]
    sys.path[:0] = folders
    # Cores are counted, not measured: the driver and two actors or replicas.
    ray.init(num_cpus=4, object_store_memory=2**28, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": ":".join(folders)}})
    yield
    ray.shutdown()
    del sys.path[: len(folders)]


@pytest.fixture
def trees(cluster):
    import tree_lstm

    model, trees = tree_lstm.make(width=8)
    with torch.no_grad(), heddle.eager():
        return model, trees, [int(model(*tree).argmax()) for tree in trees]


def test_two_actors_of_ray_data(trees):
    import classify_data

    model, all_, wanted = trees
    assert classify_data.classify(model, all_) == wanted


def test_two_replicas_of_ray_serve(trees):
    pytest.importorskip("ray.serve")
    import serve_trees

    model, all_, wanted = trees
    handle = serve_trees.start(model, all_)
    try:
        assert serve_trees.ask(handle, all_ * 4) == wanted * 4
    finally:
        ray.serve.shutdown()
